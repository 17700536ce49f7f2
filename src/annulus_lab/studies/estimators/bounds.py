"""Bounds as estimates of the information, in nats, from n positive scores and n k negative scores.

The softmax bounds are ceiling minus loss of `annulus.bounds`. NWJ, Donsker-Varadhan and the unnormalised Barber-Agakov
bound are defined here, since no encoder trains with them. Row i of the negatives belongs to positive i. An estimator
also has its highest value (`ceiling`, or infinity) and a sentence about the loss at its setting (`warning`).

Source: Poole et al. 2019, arXiv:1905.06922, Section 2; Wu et al. 2020, arXiv:2005.13149, Appendix A.8 (from
Barber-Agakov to InfoNCE).
"""

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.bounds.alpha import CPC, MLCPC
from annulus.bounds.bound import Bound as Loss
from annulus.bounds.infonce import InfoNCE


def off_diagonal(scores: Float[Tensor, "n n"]) -> Float[Tensor, "n n-1"]:
    """Scores of x_i with the other pairs' y: each row without its own column."""
    n = len(scores)
    # Without the first number, and with n + 1 numbers a row, the diagonal is the last column.
    return scores.flatten()[1:].view(n - 1, n + 1)[:, :-1].reshape(n, n - 1)


class Estimator:
    """Interface of all estimators; the defaults suit an estimator without ceiling and warning."""

    name: str

    def estimate(self, positive: Float[Tensor, "n"], negatives: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
        raise NotImplementedError

    def ceiling(self, n: int, k: int) -> float:
        return math.inf

    def warning(self, n: int, k: int) -> str | None:
        return None


@dataclass(frozen=True)
class Softmax(Estimator):
    """Estimator from a bound of `annulus.bounds`: its ceiling minus its loss.

    Negatives from a ball or a ring give VINCE or CNCE, a lower bound still.

    Source: Wu et al. 2020, arXiv:2005.13149, Corollary 4.1.1; Wu et al. 2020, arXiv:2010.02037, Theorem 3.1.
    """

    name: str
    bound: Loss

    def estimate(self, positive: Float[Tensor, "n"], negatives: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
        return self.ceiling(*negatives.shape) - self.bound.loss(positive[:, None], negatives, 0.0)

    def ceiling(self, n: int, k: int) -> float:
        return _loss_at_chance(self.bound, k)

    def warning(self, n: int, k: int) -> str | None:
        return "; ".join(self.bound.warnings(k, n)) or None


@cache
def _loss_at_chance(bound: Loss, k: int) -> float:
    scores = torch.zeros(1, 1 + k, dtype=torch.float64)
    return bound.loss(scores[:, :1], scores[:, 1:], 0.0).item()


INFONCE = Softmax("InfoNCE", InfoNCE())


def eqco(eqco_alpha: float) -> Softmax:
    """InfoNCE whose negatives together weigh `eqco_alpha`: its ceiling log(1 + eqco_alpha) does not depend on k.

    Source: Zhu et al. 2020, arXiv:2010.01929, Eqs. 4 to 6.
    """
    return Softmax(f"EqCo, alpha {eqco_alpha:g}", InfoNCE(eqco_alpha))


def cpc(weight: float) -> Softmax:
    """alpha-CPC, with alpha = `weight`. Source: Song and Ermon 2020, arXiv:2007.09852, Eq. 4."""
    return Softmax(f"CPC, alpha {weight:g}", CPC(weight))


def mlcpc(weight: float) -> Softmax:
    """alpha-ML-CPC, with alpha = `weight`. Source: Song and Ermon 2020, arXiv:2007.09852, Eq. 6."""
    return Softmax(f"ML-CPC, alpha {weight:g}", MLCPC(weight, weight))


@dataclass(frozen=True)
class NWJ(Estimator):
    """E f - E exp(f - 1) over joint and product: tight for f = 1 + log ratio; its variance grows as exp(information).

    Source: Wu et al. 2020, arXiv:2005.13149, Lemma A.2.
    """

    name: ClassVar = "NWJ"

    def estimate(self, positive: Float[Tensor, "n"], negatives: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
        return positive.mean() - (negatives - 1).exp().mean()


@dataclass(frozen=True)
class DonskerVaradhan(Estimator):
    """E f - log E exp f: tight for f = log ratio + any constant. Finitely many negatives make it exceed the bound.

    Source: Donsker and Varadhan 1983, "Asymptotic evaluation of certain Markov process expectations for large time IV".
    """

    name: ClassVar = "DV"

    def estimate(self, positive: Float[Tensor, "n"], negatives: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
        return positive.mean() - (negatives.flatten().logsumexp(dim=0) - math.log(negatives.numel()))

    def warning(self, n: int, k: int) -> str | None:
        return (
            f"the Donsker-Varadhan estimate takes the logarithm of a mean over {n * k} scores, which is too low on "
            "average: the estimate may exceed the information (Poole et al. 2019); more pairs make it smaller"
        )


@dataclass(frozen=True)
class BarberAgakov(Estimator):
    """E [f - log Z(y)], unnormalised Barber-Agakov: q(x|y) = p(x) exp f / Z(y), Z(y) = E_p(x) exp f.

    `log_normaliser` holds the exact log Z of each positive's y; with a mean over samples without the positive the value
    would not be a bound. Tight for f = log ratio + c(y).

    Source: Wu et al. 2020, arXiv:2005.13149, Lemma A.1.
    """

    log_normaliser: Float[Tensor, "n"]

    name: ClassVar = "unnormalised BA"

    def estimate(self, positive: Float[Tensor, "n"], negatives: Float[Tensor, "n k"]) -> Float[Tensor, ""]:
        return (positive - self.log_normaliser).mean()
