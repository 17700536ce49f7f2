"""Examples to look at: a few queries, their nearest images, and some negatives of each sampler.

Examples are positions in a split; the report takes the pixels from the images' own file.
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, Int64
from torch import Tensor

from annulus.device.rng import generator
from annulus.diagnostics.membership import CandidateSets
from annulus.encoders.features import Features, Layer
from annulus.evals.knn import search
from annulus.files.subset import even_subset

QUERIES, SHOWN = 8, 8
NONE = -1  # in the place of a row that a set does not have


def spread_queries(labels: Int64[Tensor, " n"], seed: int, name: str) -> Int64[Tensor, " q"]:
    """Up to eight positions, ascending, of as many classes as possible; the same ones for the same seed."""
    # Images without a class count as one class.
    return even_subset(labels.clamp(min=0), QUERIES, generator(seed, "examples", name))


def nearest_images(train: Features, test: Features, layer: Layer, seed: int) -> dict[str, Tensor]:
    """Test images (positions in their split), and the training images nearest to each, most similar first."""
    chosen = spread_queries(test.labels, seed, "test")
    bank = train.layer(layer)
    shown = min(SHOWN, len(bank))
    similarity, rows = search(bank, test.layer(layer)[chosen], shown)
    return {"test_queries": chosen, "test_neighbours": rows, "test_similarity": similarity}


def picked_negatives(
    sets: CandidateSets,
    names: Iterable[str],
    labels: Int64[Tensor, " n"],
    *,
    images: Int[Tensor, "n"],
    query_images: Int[Tensor, "q"],
    seed: int,
) -> dict[str, Tensor]:
    """Training images as queries, and eight of each named sampler's set, or draws, at random, the most similar first.

    All are positions in the training split, -1 where a set holds fewer; a sampler with an empty set is left out.
    `images` are the positions of the sets' rows. With a split these are the first part's negatives.
    """
    self_index = torch.searchsorted(images, query_images)
    chosen = spread_queries(labels[self_index], seed, "train")
    tensors = {"train_queries": query_images[chosen]}
    for name in names:
        if (found := sets.chosen.get(name) or sets.drawn.get(name)) is not None:
            random = generator(seed, "examples", name)
            rows = drawn(sets.similarity[0][chosen], found[0][chosen], random)
            tensors[f"negatives_{name}"] = images[rows.clamp_min(0)].masked_fill(rows < 0, NONE)
    return tensors


def drawn(
    similarity: Float[Tensor, "q n"], members: Bool[Tensor, "q n"] | Int[Tensor, "q n"], random: torch.Generator
) -> Int64[Tensor, "q shown"]:
    """Eight different members of each set, as likely as they count, the most similar first; then `NONE`s.

    Training draws with replacement; a picture need not be seen twice.
    """
    # The largest u^(1/count) of uniform u are a draw without replacement (Efraimidis and Spirakis 2006).
    lots = torch.rand(similarity.shape, generator=random).pow(1 / members).masked_fill(members == 0, -1.0)
    lots, rows = F.pad(lots, (0, SHOWN), value=-1.0).topk(SHOWN, dim=1)
    padded = F.pad(similarity, (0, SHOWN), value=-torch.inf)
    closeness = padded.gather(1, rows).masked_fill(lots < 0, -torch.inf)
    order = closeness.argsort(dim=1, descending=True, stable=True)
    return rows.masked_fill(lots < 0, NONE).gather(1, order)
