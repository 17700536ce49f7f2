"""Decoupled contrastive loss: without the positive in the denominator."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from annulus.bounds.bound import checked_scores
from annulus.bounds.infonce import log_sum
from annulus.bounds.loss import Loss
from annulus.device.distributed import all_gather
from annulus.errors import InputError
from annulus.settings import Positive


def dcl(
    positives: Float[Tensor, "b 1"], negatives: Float[Tensor, "b k"], sharpness: float | None = None
) -> Float[Tensor, ""]:
    """log of the negatives' sum minus the positive's score: log k at chance, without a lower limit, and not a bound.

    With `sharpness` (DCLW) the positive's score counts 2 - e^(sharpness score) / the batch's mean of these, a constant
    of the gradient: a positive that is already close counts less. sharpness = temperature / sigma.

    Source: Yeh et al. 2022, arXiv:2110.06848, Section 3.

    Raises:
        InputError: if the arguments are not tables of scores.

    >>> annulus.bounds.dcl(torch.zeros(8, 1), torch.zeros(8, 15))  # log 15
    tensor(2.7081)
    """
    positives, negatives = checked_scores(positives, negatives)
    weights = 1.0 if sharpness is None else _weights(logits := sharpness * positives[:, 0].detach(), logits)
    return _weighted(positives, negatives, weights)


def _weighted(
    positives: Float[Tensor, "b 1"], negatives: Float[Tensor, "b k"], weights: Float[Tensor, "b"] | float
) -> Float[Tensor, ""]:
    return (log_sum(negatives) - positives[:, 0] * weights).mean()


def _weights(logits: Float[Tensor, "b"], every: Float[Tensor, "all"]) -> Float[Tensor, "b"]:
    """DCLW's weights; `every`: the logits of the whole batch."""
    return 2 - len(every) * (logits - every.logsumexp(dim=0)).exp()


@dataclass(frozen=True)
class DCL(Loss):
    """`dcl`. sigma: of DCLW's weights e^(cosine / sigma); None: DCL, without weights.

    >>> config = annulus.ContrastConfig(bound=annulus.bounds.DCL(sigma=0.5), negatives=64)
    """

    sigma: Positive | None = None
    neighbours: ClassVar = "refused"

    def at(self, temperature: float) -> "DCL | _Weighted":
        return self if self.sigma is None else _Weighted(temperature / self.sigma)

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        if self.sigma is not None:
            raise InputError(
                f"DCL with sigma {self.sigma:g} needs the temperature of its scores; give Contrast(..., temperature=T)"
            )
        return dcl(positives, negatives)


@dataclass(frozen=True)
class _Weighted(Loss):
    """`dcl` with weights, whose mean is over the batches of all processes."""

    sharpness: float

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        positives, negatives = checked_scores(positives, negatives)
        logits = self.sharpness * positives[:, 0].detach()
        return _weighted(positives, negatives, _weights(logits, all_gather(logits)))
