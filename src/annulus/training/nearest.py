"""Accuracy of the nearest neighbour, which pretraining reports each epoch, on the device of the embeddings."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

SCORES_AT_ONCE = 2**24  # 64 MiB of float32 similarities


@torch.no_grad()
def nearest_label_accuracy(
    queries: Float[Tensor, "q d"],
    rows: Float[Tensor, "n d"],
    query_labels: Int[Tensor, "q"],
    row_labels: Int[Tensor, "n"],
) -> float:
    """Percent of the queries whose most similar row has their label; 100 / classes at chance.

    Similarity is the dot product: give unit vectors. Of equally similar rows the first counts.
    The rows must not hold the queries themselves.

    Source: Wu et al. 2020, arXiv:2005.13149, Figures 1, 4 and 5.

    Raises:
        ValueError: without queries or rows; accuracy has no value then.
    """
    if len(queries) == 0 or len(rows) == 0:
        raise ValueError(f"nearest neighbours need queries and rows, got {len(queries)} and {len(rows)}")
    size = max(1, SCORES_AT_ONCE // len(rows))
    nearest = torch.cat([(chunk @ rows.T).argmax(dim=1) for chunk in queries.split(size)])  # (q,)
    return 100 * (row_labels[nearest] == query_labels).double().mean().item()
