"""Debiased and hard contrastive losses: negatives without an expected share of the query's class, hard ones first."""

import math
from dataclasses import dataclass
from typing import Annotated

import torch
from annotated_types import Ge, Le
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import logsigmoid

from annulus.bounds.bound import checked_scores, present
from annulus.bounds.infonce import log_sum
from annulus.bounds.loss import Loss
from annulus.errors import InputError
from annulus.settings import Share

FINEST = 2.0**-24  # of float32: a score is rounded by at most this share of itself
ROUNDED = 0.01  # nats: more would be a loss of roundings


def hcl(
    positives: Float[Tensor, "b 1"], negatives: Float[Tensor, "b k"], beta: float, tau_plus: float, lowest: float
) -> Float[Tensor, ""]:
    """-log of p/(p + N) for e^score p of the positive, where N replaces the sum of the k negatives' e^score.

    N = max((R - k tau_plus p)/(1 - tau_plus), k e^lowest). R is the negatives' sum with weights in proportion to
    e^(beta score), whose mean is 1. tau_plus: share of all images that have the query's class. lowest: the lowest
    possible score, -1/temperature. beta 0: the debiased loss. beta 0 and tau_plus 0: `infonce`, exactly. At chance with
    scores of 0, log(1 + k).

    As in the authors' code, the weights have a gradient.

    Source: Robinson et al. 2021, arXiv:2010.04592, Section 3; Chuang et al. 2020, arXiv:2007.00224, Section 4.

    Raises:
        InputError: if the arguments are not tables of scores.

    >>> annulus.bounds.hcl(torch.zeros(8, 1), torch.zeros(8, 15), beta=1.0, tau_plus=0.1, lowest=-2.0)  # log 16
    tensor(2.7726)
    """
    positives, negatives = checked_scores(positives, negatives)
    own, log_n = positives[:, 0], log_sum(negatives)
    log_k = present(negatives).to(negatives.dtype).log()
    if beta > 0:
        log_n = log_sum((1 + beta) * negatives) - log_sum(beta * negatives) + log_k
    if tau_plus > 0:
        excess = log_k + math.log(tau_plus) + own - log_n  # log of the share of R that is of the query's class
        some = excess < 0
        log_rest = (-excess.where(some, -1).expm1()).log().where(some, -torch.inf)
        log_n = torch.maximum(log_n + log_rest - math.log1p(-tau_plus), log_k + lowest)
    return -logsigmoid(own - log_n).mean()


@dataclass(frozen=True)
class HCL(Loss):
    """`hcl` with the concentration `beta` and the class prior `tau_plus`; beta 0: the debiased loss.

    It takes the negatives of any sampler. With `OtherClass` no negative is of the query's class, so tau_plus is 0.

    >>> config = annulus.ContrastConfig(bound=annulus.bounds.HCL(beta=1.0, tau_plus=0.1), negatives=64)
    """

    beta: Annotated[float, Ge(0), Le(10**9)]
    tau_plus: Share

    def at(self, temperature: float) -> "_HCL":
        """The loss at this temperature.

        Raises:
            InputError: if beta is so large that float32 rounds the weighted scores by more than `ROUNDED`.
        """
        rounded = FINEST * (1 + self.beta) / temperature
        if not rounded <= ROUNDED:
            raise InputError(
                f"beta {self.beta:g} at temperature {temperature:g} overflows: scores of (1 + beta)/temperature = "
                f"{(1 + self.beta) / temperature:.3g} are rounded by {rounded:.2g} nats; give a beta of "
                f"{ROUNDED / FINEST * temperature - 1:.3g} or less (the paper's is 0.5 to 2)"
            )
        return _HCL(self.beta, self.tau_plus, -1 / temperature)

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        raise InputError("HCL needs the temperature of its scores; give Contrast(..., temperature=T)")


@dataclass(frozen=True)
class _HCL(Loss):
    """`hcl` at a temperature."""

    beta: float
    tau_plus: float
    lowest: float

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return hcl(positives, negatives, self.beta, self.tau_plus, self.lowest)
