"""Simple contrastive loss: mean score of the negatives minus that of the positive, without a softmax."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from annulus.bounds.bound import checked_scores, present
from annulus.bounds.loss import Loss


def simple(positives: Float[Tensor, "b 1"], negatives: Float[Tensor, "b k"]) -> Float[Tensor, ""]:
    """Mean score of the negatives minus the positive's score: 0 at chance, and not a bound.

    Every negative has the same gradient, as in InfoNCE of an infinite temperature. Hard negatives must be chosen.
    Scores need limits, as cosines have them: a critic that learns has none, and lowers the loss for ever.

    Source: Wang and Liu 2021, "Understanding the Behaviour of Contrastive Loss", CVPR, arXiv:2012.09740. Their code
    weighs each negative by 1/k.

    Raises:
        InputError: if the arguments are not tables of scores.

    >>> annulus.bounds.simple(torch.ones(8, 1), torch.zeros(8, 15))
    tensor(-1.)
    """
    positives, negatives = checked_scores(positives, negatives)
    mean = negatives.masked_fill(negatives.isneginf(), 0).sum(dim=1) / present(negatives)
    return (mean - positives[:, 0]).mean()


@dataclass(frozen=True)
class Simple(Loss):
    """`simple`; with a ball of all its rows the hard simple loss of Wang and Liu.

    >>> ball = annulus.negatives.Ball(outer=0.082)
    >>> config = annulus.ContrastConfig(ball, bound=annulus.bounds.Simple(), negatives="all")
    """

    neighbours: ClassVar = "refused"

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return simple(positives, negatives)
