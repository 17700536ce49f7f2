"""Tolerance: how close images of one class lie to each other."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.files.images import UNLABELLED


def tolerance(embeddings: Float[Tensor, "n d"], labels: Int[Tensor, "n"]) -> float | None:
    """Mean similarity of two different images of one class: 1 if each class has one direction, 0 for even spread.

    It takes unit vectors. Images without a class are left out. None: no class has two images.

    Source: Wang and Liu 2021, arXiv:2012.09740, Section 3.3; there an image is also paired with itself, and pairs of
    two classes count as 0.
    """
    known = labels != UNLABELLED
    classes, members = labels[known].unique(return_inverse=True)
    sums = torch.zeros(len(classes), embeddings.shape[1], dtype=torch.float64, device=embeddings.device)
    sums.index_add_(0, members, embeddings[known].double())
    counts = members.bincount(minlength=len(classes))
    pairs = (counts * (counts - 1)).sum().item()
    return (sums.square().sum().item() - len(members)) / pairs if pairs else None
