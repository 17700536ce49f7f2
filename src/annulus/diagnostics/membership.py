"""Who is in the samplers' sets, and how many of them share the query's label, which no sampler knows.

Sets come from `negatives.draw`, as in training; here they are looked at whole.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.compute.rng import derive
from annulus.config.negatives import CaveParams, SamplerParams
from annulus.errors import InputError
from annulus.negatives.clusters import fewer_clusters, kmeans
from annulus.negatives.samplers import Clusters, draw

Side = tuple[Float[Tensor, "q d"], Float[Tensor, "n d"]]  # queries, and the rows that they are compared with


def members(
    similarity: Float[Tensor, "q n"],
    own: Int[Tensor, "q"],
    sampler: SamplerParams,
    progress: float = 1.0,
    clusters: Clusters | None = None,
) -> Bool[Tensor, "q n"]:
    """Which rows are in each query's set.

    Raises:
        InputError: when a set is empty.
    """
    found = draw(similarity, own, "all", sampler, progress, torch.Generator(), clusters)  # nothing is drawn
    if found.rows is None:
        return found.present
    present = torch.ones_like(found.rows, dtype=torch.bool) if found.present is None else found.present
    return torch.zeros_like(similarity, dtype=torch.bool).scatter_(1, found.rows, present)


def radii(similarity: Float[Tensor, "q n"], chosen: Bool[Tensor, "q n"]) -> tuple[float, float]:
    """(inner, outer): the similarity of each set's closest and of its farthest member, mean over queries."""
    closest = similarity.masked_fill(~chosen, -torch.inf).amax(dim=1)
    farthest = similarity.masked_fill(~chosen, torch.inf).amin(dim=1)
    return closest.mean().item(), farthest.mean().item()


def false_negative_percent(chosen: Bool[Tensor, "q n"], labels: Int[Tensor, "n"], own: Int[Tensor, "q"]) -> float:
    """Percent of a set's rows that have the query's label, mean over queries."""
    same = labels == labels[own][:, None]
    shares = (chosen & same).sum(dim=1).double() / chosen.sum(dim=1)
    return 100 * shares.mean().item()


def chance_percent(labels: Int[Tensor, "n"]) -> float:
    """Percent of the pairs of different images that share a label: sum over classes of c (c - 1) / (n (n - 1))."""
    counts = torch.bincount(labels).double()
    return 100 * (counts * (counts - 1)).sum().item() / (len(labels) * (len(labels) - 1))


def progress_of(sampler: SamplerParams, inner_share: float, outer_share: float) -> float:
    """How far annealing had come when the set kept these shares of the memory; undoes `negatives.kept_shares`."""
    inner, outer = sampler.shares
    if outer < 1:
        return min((1 - outer_share) / (1 - sampler.outer), 1.0)
    if inner > 0:
        return min(inner_share / sampler.inner, 1.0)
    return 1.0


def cave_for(cave: CaveParams, images: int, train_images: int) -> CaveParams:
    """Cave for a part of the training images: fewer clusters in proportion, so that they keep their mean size.

    Two at least, and no more than there are images.
    """
    clusters = round(fewer_clusters(cave.clusters, train_images) * images / train_images)
    return cave.model_copy(update={"clusters": min(max(clusters, 2), images)})


@dataclass(frozen=True)
class Sets:
    """On each side, similarities, and by name who is in each query's set.

    A sampler that leaves some query none is not among them; `faults` says why.
    """

    similarity: list[Float[Tensor, "q n"]]
    chosen: dict[str, list[Bool[Tensor, "q n"]]]
    faults: dict[str, str]


def sets_of(
    sides: Sequence[Side], own: Int[Tensor, "q"], samplers: Mapping[str, tuple[SamplerParams, float]], seed: int
) -> Sets:
    """The sets of named samplers, each with how far annealing has come; caves among them share their clusters."""
    cave = next((sampler for sampler, _ in samplers.values() if isinstance(sampler, CaveParams)), None)
    sets = Sets([], {name: [] for name in samplers}, {})
    for number, (queries, rows) in enumerate(sides):
        sets.similarity.append(queries @ rows.T)
        clusters = None
        if cave is not None:
            found = kmeans(rows, cave.clusters, cave.iterations, cave.runs, derive(seed, number))
            clusters = Clusters(found, found[:, own])
        for name, (sampler, progress) in samplers.items():
            try:
                sets.chosen[name].append(members(sets.similarity[-1], own, sampler, progress, clusters))
            except InputError as error:
                sets.faults[name] = str(error)
    for name in sets.faults:
        del sets.chosen[name]
    return sets
