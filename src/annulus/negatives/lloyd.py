"""k-means on a GPU in PyTorch: all clusterings of the same rows at once, by products with a fixed order of summation.

Distances are Euclidean. Each clustering starts from its own rows. They are drawn on the CPU, so all processes start
alike.
"""

from collections.abc import Iterator

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.rng import generator

SCORED = 2**26  # scores of rows with centres at a time: 256 MB
SPLIT = 1 / 1024  # initial shift of the two halves of a cluster, as a share of each coordinate


def lloyd(rows: Float[Tensor, "n d"], clusters: int, iterations: int, runs: int, seed: int) -> Int[Tensor, "runs n"]:
    """Clusters the rows in `runs` clusterings with different starts, by `iterations` of Lloyd's algorithm.

    A cluster that becomes empty takes half of one whose rows lie far apart. If there are fewer different rows than
    clusters, some clusters stay empty.
    """
    rows = rows.detach().float()
    drawn = [torch.randperm(len(rows), generator=generator(seed, "kmeans", run))[:clusters] for run in range(runs)]
    centres = rows[torch.stack(drawn).to(rows.device)]  # (runs, clusters, d)
    for _ in range(iterations):
        centres = _moved(rows, centres)
    return torch.cat([nearest for _, nearest in _nearest(rows, centres)]).T.int().contiguous()


def _nearest(
    rows: Float[Tensor, "n d"], centres: Float[Tensor, "runs clusters d"]
) -> Iterator[tuple[Float[Tensor, "b d"], Int[Tensor, "b runs"]]]:
    """Yields some rows at a time, and the number of the nearest centre to each."""
    runs, clusters, _ = centres.shape
    every = centres.flatten(end_dim=1)
    half_squares = every.square().sum(dim=1) / 2
    for some in rows.split(max(1, SCORED // len(every))):
        # |x - c|^2 is |x|^2 - 2 (x c - |c|^2 / 2).
        scores = torch.addmm(half_squares, some, every.T, beta=-1)
        yield some, scores.view(-1, runs, clusters).argmax(dim=2)


def _moved(rows: Float[Tensor, "n d"], centres: Float[Tensor, "runs clusters d"]) -> Float[Tensor, "runs clusters d"]:
    """One iteration: moves each centre to the mean of its nearest rows."""
    runs, clusters, dim = centres.shape
    numbers = torch.arange(clusters, device=rows.device)
    sums, counts, squares = torch.zeros_like(centres), *centres.new_zeros(2, runs, clusters)
    for some, nearest in _nearest(rows, centres):
        members = (nearest[..., None] == numbers).to(rows.dtype).flatten(start_dim=1).T  # (runs * clusters, b)
        sums += (members @ some).view(runs, clusters, dim)
        counts += members.sum(dim=1).view(runs, clusters)
        squares += (members @ some.square().sum(dim=1)).view(runs, clusters)
    means = torch.where(counts[..., None] > 0, sums / counts.clamp(min=1)[..., None], centres)
    return _split(means, counts == 0, squares - counts * means.square().sum(dim=2))


def _split(
    means: Float[Tensor, "runs clusters d"],
    empty: Bool[Tensor, "runs clusters"],
    spread: Float[Tensor, "runs clusters"],
) -> Float[Tensor, "runs clusters d"]:
    """Gives each empty cluster half of another one, in order of the sums of squared distances from the means.

    The number of rows is not the order, since equal rows cannot be split.
    """
    by_spread = spread.masked_fill(empty, -torch.inf).argsort(dim=1, descending=True, stable=True)
    place = by_spread.argsort(dim=1)  # of each cluster, from 0
    halved = ~empty & (place < empty.sum(dim=1, keepdim=True))
    other = by_spread.gather(1, (empty.cumsum(dim=1) - 1).clamp(min=0))  # the cluster that an empty one halves
    halves = means.gather(1, other[..., None].expand_as(means))
    apart = SPLIT * (1 - 2 * (torch.arange(means.shape[2], device=means.device) % 2))
    means = torch.where(halved[..., None], means * (1 - apart), means)
    return torch.where(empty[..., None], halves * (1 + apart), means)
