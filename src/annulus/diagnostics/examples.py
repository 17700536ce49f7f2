"""Examples for the report: a few queries, their nearest images, and some negatives of each sampler.

Examples are positions in a split; the report reads the pixels from the images' file.
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

QUERIES, EXAMPLES = 8, 8
NONE = -1  # fills the places of a set with fewer rows


def spread_queries(labels: Int64[Tensor, " n"], seed: int, name: str) -> Int64[Tensor, " q"]:
    """Selects up to eight positions, ascending, spread over the classes; the same positions for the same seed."""
    # Images without a class count as one class.
    return even_subset(labels.clamp(min=0), QUERIES, generator(seed, "examples", name))


def nearest_images(train: Features, test: Features, layer: Layer, seed: int) -> dict[str, Tensor]:
    """Selects test images (positions in their split), and the nearest training images to each, most similar first."""
    chosen = spread_queries(test.labels, seed, "test")
    bank = train.layer(layer)
    similarity, rows = search(bank, test.layer(layer)[chosen], min(EXAMPLES, len(bank)))
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
    """Selects training images as queries, and for each named sampler eight random negatives, the most similar first.

    The negatives are from the sampler's set, or from its draws. All numbers are positions in the training split, -1 if
    a set has fewer. A sampler with an empty set is omitted. `images` are the positions of the sets' rows. With a split,
    the negatives are the first part's.
    """
    self_index = torch.searchsorted(images, query_images)
    chosen = spread_queries(labels[self_index], seed, "train")
    tensors = {"train_queries": query_images[chosen]}
    for name in names:
        if (members := sets.chosen.get(name) or sets.drawn.get(name)) is not None:
            random = generator(seed, "examples", name)
            rows = draw_members(sets.similarity[0][chosen], members[0][chosen], random)
            tensors[f"negatives_{name}"] = images[rows.clamp_min(0)].masked_fill(rows < 0, NONE)
    return tensors


def draw_members(
    similarity: Float[Tensor, "q n"], members: Bool[Tensor, "q n"] | Int[Tensor, "q n"], random: torch.Generator
) -> Int64[Tensor, "q k"]:
    """Draws eight different members of each set with probabilities by their counts, most similar first; pads with NONE.

    Training draws with replacement; a picture shows an image once.
    """
    # The largest u^(1/count) of uniform u are a draw without replacement (Efraimidis and Spirakis 2006).
    lots = torch.rand(similarity.shape, generator=random).pow(1 / members).masked_fill(members == 0, -1.0)
    lots, rows = F.pad(lots, (0, EXAMPLES), value=-1.0).topk(EXAMPLES, dim=1)
    padded = F.pad(similarity, (0, EXAMPLES), value=-torch.inf)
    closeness = padded.gather(1, rows).masked_fill(lots < 0, -torch.inf)
    order = closeness.argsort(dim=1, descending=True, stable=True)
    return rows.masked_fill(lots < 0, NONE).gather(1, order)
