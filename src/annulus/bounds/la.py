"""Local aggregation: the close neighbours' share of the background."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.bounds.bound import Bound, checked_scores


def la(close: Float[Tensor, "b c"], background: Float[Tensor, "b n"]) -> Float[Tensor, ""]:
    """-log of the close neighbours' share of the background, which includes them.

    At chance log(n/c): log 2 if half of the background is close. The partition function of the original objective
    cancels, so the original objective equals this one (arXiv:2005.13149, Lemma B.3).

    Source: Wu et al. 2020, arXiv:2005.13149, Eqs. 2 and Lemma B.3.
    """
    return (background.logsumexp(dim=1) - close.logsumexp(dim=1)).mean()


def la_ceiling(close: Int[Tensor, "b"], background: Int[Tensor, "b"]) -> Float[Tensor, ""]:
    """log(n/c) for a background of n and a close set of c."""
    return (background / close).log().mean()


@dataclass(frozen=True)
class LocalAggregation(Bound):
    """`la` with the query's own column and its neighbours among the negatives as close set, and all as background.

    >>> close, background = torch.zeros(8, 4), torch.zeros(8, 15)  # the first close column is the query's own
    >>> annulus.bounds.LocalAggregation().loss(close, background)  # log(16 / 4)
    tensor(1.3863)
    """

    neighbours: ClassVar = "among negatives"

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        positives, negatives = checked_scores(positives, negatives)
        return la(positives, torch.cat([positives[:, :1], negatives], dim=1))

    def ceiling(
        self, positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return la_ceiling(positives, negatives + 1)
