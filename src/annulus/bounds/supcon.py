"""Supervised contrastive loss: several positives, all in the denominator, their mean outside or inside the log."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.bounds.bound import checked_scores, present
from annulus.bounds.loss import Loss


def supcon(
    positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], mean: Literal["outside", "inside"]
) -> Float[Tensor, ""]:
    """-log of a positive's share of all p + k candidates, whose mean over positives is outside or inside the log.

    At chance log(p + k) for both. The inside form is `infonce` of these positives plus log p, so it has the gradient of
    `infonce`. The outside form has a pull on each positive alike: its gradient in a positive's score is the softmax's
    share minus 1/p. A positive of -inf is absent.

    Source: Khosla et al. 2020, arXiv:2004.11362, Section 3, Eqs. 2 (outside) and 3 (inside).

    Raises:
        InputError: if the arguments are not tables of scores.

    >>> annulus.bounds.supcon(torch.zeros(8, 4), torch.zeros(8, 12), mean="outside")  # log 16
    tensor(2.7726)
    """
    positives, negatives = checked_scores(positives, negatives)
    every, count = torch.cat([positives, negatives], dim=1).logsumexp(dim=1), present(positives)
    if mean == "outside":
        pull = positives.masked_fill(positives.isneginf(), 0).sum(dim=1) / count
    else:
        pull = positives.logsumexp(dim=1) - count.to(positives.dtype).log()
    return (every - pull).mean()


@dataclass(frozen=True)
class SupCon(Loss):
    """`supcon`, with the query's own column and its neighbours as positives.

    With `OtherClass` and `ClassNeighbours`, candidates are all rows, as in the paper; without labels, other neighbours
    take the place of the class.

    >>> sampler = annulus.negatives.OtherClass(outer=1.0)
    >>> neighbours = annulus.negatives.ClassNeighbours(start=0.0, in_denominator=True)
    >>> config = annulus.ContrastConfig(sampler, neighbours, annulus.bounds.SupCon(mean="outside"))
    """

    mean: Literal["outside", "inside"]
    neighbours: ClassVar = "candidates"

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return supcon(positives, negatives, self.mean)
