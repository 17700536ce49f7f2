"""Geometry of embeddings on the sphere: alignment, uniformity, tolerance, effective rank."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.files.images import UNLABELLED

ROWS_AT_ONCE = 1024  # of the table of all similarities


def alignment(first: Float[Tensor, "n d"], second: Float[Tensor, "n d"]) -> float:
    """Mean squared distance of two views of an image: 0 if they are equal, 2 for unrelated directions.

    Source: Wang and Isola 2020, arXiv:2005.10242, Section 4.1 (exponent 2).

    >>> import torch
    >>> from annulus.evals import alignment
    >>> alignment(torch.eye(2), torch.eye(2).flip(0))
    2.0
    """
    return (first - second).square().sum(dim=1).mean().item()


def uniformity(embeddings: Float[Tensor, "n d"]) -> float:
    """Log of the mean of exp(-2 distance^2) over pairs: 0 for one direction, about -4 for evenly spread directions.

    It takes two or more unit vectors.

    Source: Wang and Isola 2020, arXiv:2005.10242, Section 4.1 (t = 2, pairs of different images).

    >>> import torch
    >>> from annulus.evals import uniformity
    >>> round(uniformity(torch.eye(64)), 3)
    -4.0
    """
    parts = []
    for start in range(0, len(embeddings), ROWS_AT_ONCE):
        similarity = embeddings[start : start + ROWS_AT_ONCE] @ embeddings.T
        similarity.diagonal(start).fill_(-torch.inf)
        parts.append((4 * similarity - 4).logsumexp(dim=1))  # distance^2 of unit vectors is 2 - 2 similarity
    return torch.cat(parts).double().logsumexp(dim=0).item() - math.log(len(embeddings) * (len(embeddings) - 1))


def tolerance(embeddings: Float[Tensor, "n d"], labels: Int[Tensor, "n"]) -> float | None:
    """Mean similarity of two different images of one class: 1 if each class has one direction, 0 for even spread.

    It takes unit vectors. Images without a class are left out. None: no class has two images. The source's equation
    counts a pair of two classes as 0. Its Table 1 does not: such a mean is at most 0.1 for ten classes, and the table
    has 0.61.

    Source: Wang and Liu 2021, "Understanding the Behaviour of Contrastive Loss", CVPR, arXiv:2012.09740, Eq. 11.

    >>> import torch
    >>> from annulus.evals import tolerance
    >>> tolerance(torch.eye(2).repeat(3, 1), torch.tensor([0, 1, 0, 1, 0, 1]))
    1.0
    """
    known = labels != UNLABELLED
    classes, members = labels[known].unique(return_inverse=True)
    sums = torch.zeros(len(classes), embeddings.shape[1], dtype=torch.float64, device=embeddings.device)
    sums.index_add_(0, members, embeddings[known].double())
    counts = members.bincount(minlength=len(classes))
    pairs = (counts * (counts - 1)).sum().item()
    return (sums.square().sum().item() - len(members)) / pairs if pairs else None


def effective_rank(embeddings: Float[Tensor, "n d"]) -> float:
    """exp of the entropy of the singular values' shares: 1 if all embeddings lie on a line, d without a preference.

    Source: Roy and Vetterli 2007, "The effective rank", EUSIPCO, Definition 1.

    >>> import torch
    >>> from annulus.evals import effective_rank
    >>> round(effective_rank(torch.eye(8)), 6)
    8.0
    """
    values = torch.linalg.svdvals(embeddings.double())
    return torch.special.entr(values / values.sum()).sum().exp().item()
