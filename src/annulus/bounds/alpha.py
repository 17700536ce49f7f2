"""alpha-CPC and alpha-ML-CPC: bounds with a weight of the positive in the denominator."""

import math
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar

from jaxtyping import Float, Int, Num
from torch import Tensor
from torch.nn.functional import logsigmoid

from annulus.bounds.bound import Bound, checked_scores, present
from annulus.bounds.eqco import effective_alpha, margin
from annulus.bounds.infonce import infonce, log_sum
from annulus.device.checks import check
from annulus.device.distributed import all_gather, all_gather_with_grad
from annulus.errors import InputError
from annulus.settings import Done, Positive, check_value


def _log_weight(negatives: Num[Tensor, "*b"], alpha: float) -> Float[Tensor, "*b"]:
    """log(beta/alpha), a negative's weight relative to a positive's: beta = (m - alpha)/(m - 1), m = 1 + negatives.

    0 at alpha 1, log 4 at alpha 1/3 and m = 3. Source: Song and Ermon 2020, arXiv:2007.09852, Eq. 4.

    Raises:
        InputError: unless alpha is a number in (0, m), so that all weights are positive.
    """
    if not isinstance(alpha, Real):
        raise InputError(f"alpha is {alpha!r}; give a number above 0: 1 for plain cpc")

    def fault(fewest: float) -> str | None:
        if fewest == 0:
            return "a query has no negatives: all of its scores are -inf, and alpha has nothing to weigh"
        if 0 < alpha < 1 + fewest:
            return None
        return (
            f"alpha is {alpha:g} with m = {1 + fewest:g} candidates, a positive and {fewest:g} negatives; it must be "
            "above 0 and below m: choose alpha 1 for plain cpc, or more negatives for a larger alpha"
        )

    check(negatives.min(), fault)
    return ((1 + negatives - alpha) / (negatives * alpha)).log()


def cpc(positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], alpha: float) -> Float[Tensor, ""]:
    """InfoNCE with weight alpha on a positive and beta = (m - alpha)/(m - 1) on each of m - 1 negatives.

    At chance log(m/alpha) for one positive; alpha 1 is `infonce`. m counts a query's present negatives.

    Source: Song and Ermon 2020, arXiv:2007.09852, Eq. 4, as log(m/alpha) - L_alpha.

    Raises:
        InputError: if alpha is outside (0, m), or the arguments are not tables of scores.

    >>> scores = torch.zeros(8, 16)
    >>> annulus.bounds.cpc(scores[:, :1], scores[:, 1:], alpha=0.5)  # log(16 / 0.5)
    tensor(3.4657)
    """
    positives, negatives = checked_scores(positives, negatives)
    # A smaller weight of the few positives is the same as a larger weight of the many negatives.
    log_weight = _log_weight(present(negatives).to(negatives.dtype), alpha)
    return infonce(positives - log_weight[:, None], negatives)


def cpc_ceiling(
    positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], alpha: float, eqco_alpha: float | None = None
) -> Float[Tensor, ""]:
    """log(1 + k beta/(p alpha)) for p positives and k negatives: log(m/alpha) without neighbours.

    If `margin` shifted the negatives, `eqco_alpha` replaces k, though not in m.

    Raises:
        InputError: if alpha is outside (0, m).
    """
    total = negatives if eqco_alpha is None else eqco_alpha
    return (_log_weight(negatives, alpha).exp() * total / positives).log1p().mean()


def cpc_warning(alpha: float, m: int) -> str | None:
    """Warning about the possible excess of this alpha with m candidates; None from alpha 1 on, which is a bound.

    The paper (Song and Ermon 2020, arXiv:2007.09852) proves the bound up to m/2. It holds up to m: with shares x_i of a
    sum of 1, the expectation of its Proposition 2 is sum_i x_i / (beta + (alpha - beta) x_i). For alpha >= beta this is
    concave, so at most its value 1 at x_i = 1/m. For alpha < 1 it is convex, so at most its value 1/alpha at a corner.
    """
    if alpha >= 1:
        return None
    return (
        f"cpc with alpha {alpha:g}, below 1, is not a lower bound: it may exceed the information by up to "
        f"log(1/alpha) = {-math.log(alpha):.3g} nats, and its ceiling is {math.log(m / alpha):.3g} nats, "
        f"not log m = {math.log(m):.3g}"
    )


def mlcpc(positive: Float[Tensor, "b"], negatives: Float[Tensor, "b k"], alpha: float) -> Float[Tensor, ""]:
    """KL from 1/b on each positive to one softmax over all candidates of the batch, weighed as in `cpc`.

    At chance log(m/alpha); with one query it equals `cpc`. If queries have different numbers of negatives, m is their
    mean plus 1, so all negatives weigh the same.

    Source: Song and Ermon 2020, arXiv:2007.09852, Eq. 6, as log(m/alpha) - J_alpha, which is the KL of its Algorithm 1.

    Raises:
        InputError: if alpha is outside (0, m), or the arguments are not scores of queries.

    >>> scores = torch.zeros(8, 16)
    >>> annulus.bounds.mlcpc(scores[:, 0], scores[:, 1:], alpha=1.0)  # log 16
    tensor(2.7726)
    """
    if isinstance(positive, Tensor) and positive.ndim != 1:
        raise InputError(f"positive is of shape {tuple(positive.shape)}; give one score for each query, (b,)")
    positives, negatives = checked_scores(positive[:, None] if isinstance(positive, Tensor) else positive, negatives)
    return _mlcpc(positives[:, 0], present(negatives), log_sum(negatives.flatten())[None], alpha)


def _mlcpc(
    positive: Float[Tensor, "b"], counts: Int[Tensor, "b"], log_sums: Float[Tensor, "parts"], alpha: float
) -> Float[Tensor, ""]:
    """`mlcpc` of a batch in parts: `counts` are the queries' numbers of negatives, `log_sums` the parts' log sums."""
    log_weight = _log_weight(counts.to(positive.dtype).mean(), alpha)
    log_odds = positive.logsumexp(dim=0) - log_weight - log_sums.logsumexp(dim=0)
    uneven = (positive - positive.mean()).logsumexp(dim=0) - math.log(len(positive))  # 0 if all scores are equal
    return uneven - logsigmoid(log_odds)


def mlcpc_ceiling(negatives: Int[Tensor, "b"], alpha: float, eqco_alpha: float | None = None) -> Float[Tensor, ""]:
    """log(m/alpha) for numbers of negatives; `eqco_alpha` as in `cpc_ceiling`.

    Raises:
        InputError: if alpha is outside (0, m).
    """
    mean = negatives.float().mean()
    return (_log_weight(mean, alpha).exp() * (mean if eqco_alpha is None else eqco_alpha)).log1p()


def mlcpc_lower_alpha(m: int, n: int) -> float:
    """The smallest alpha with a proven bound, for n positives of m candidates each: 3/7 for n = m = 3.

    log(m/alpha) is then log(n (m - 1) + 1). Source: Song and Ermon 2020, arXiv:2007.09852, Theorem 2.
    """
    return m / (n * (m - 1) + 1)


def mlcpc_warning(alpha: float, m: int, n: int) -> str | None:
    """Warning about the possible excess of this alpha with n queries of m candidates; None if it is a bound.

    A query has all n (m - 1) negatives (proof of arXiv:2007.09852, Theorem 2), so this is `cpc` with n (m - 1) + 1
    candidates and alpha / alpha_{m,n}.
    """
    lowest = mlcpc_lower_alpha(m, n)
    if alpha >= lowest:
        return None
    return (
        f"mlcpc with alpha {alpha:g} is not a lower bound: below m/(n(m-1)+1) = {lowest:.4g} for n = {n} queries of "
        f"m = {m} candidates it may exceed the information by up to {math.log(lowest / alpha):.3g} nats"
    )


def geometric(start: float, end: float, share: float) -> float:
    """alpha at this share of training, start (end/start)^share: 1 at half of training from 10 to 0.1.

    Source: Song and Ermon 2020, arXiv:2007.09852, Section 5.3 (here `share` changes at every step).
    """
    return start * (end / start) ** share


@dataclass(frozen=True)
class CPC(Bound):
    """`cpc` with weight `alpha` of the positive; `eqco_alpha` as in `InfoNCE`.

    >>> bound = annulus.bounds.CPC(alpha=0.1)
    >>> bound.warnings(negatives=15, queries=8)
    ['cpc with alpha 0.1, below 1, is not a lower bound: ... its ceiling is 5.08 nats, not log m = 2.77']
    """

    alpha: Positive
    eqco_alpha: Positive | None = None
    neighbours: ClassVar = "positives"

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return cpc(positives, margin(negatives, self.eqco_alpha), self.alpha)

    def ceiling(
        self, positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return cpc_ceiling(positives, negatives, self.alpha, self.eqco_alpha)

    def warnings(self, negatives: int, queries: int) -> list[str]:
        m = 1 + negatives
        warning = cpc_warning(effective_alpha(self.alpha, m, self.eqco_alpha), m)
        return [] if warning is None else [warning]


@dataclass(frozen=True)
class MLCPC(Bound):
    """`mlcpc` with an alpha that changes geometrically from start to end over training; `eqco_alpha` as in `InfoNCE`.

    `divide_by_alpha` scales the gradient, as the authors' code does. With several processes, each passes its own
    queries, and all return the loss of the whole batch. They exchange the positives, and one sum of negatives each.

    >>> bound = annulus.bounds.MLCPC(alpha_start=10.0, alpha_end=0.1)
    >>> [round(bound.alpha(training), 3) for training in (0.0, 0.5, 1.0)]
    [10.0, 1.0, 0.1]
    """

    alpha_start: Positive
    alpha_end: Positive
    divide_by_alpha: bool = False
    eqco_alpha: Positive | None = None
    neighbours: ClassVar = "refused"

    def alpha(self, training: float) -> float:
        """The weight at this share of training.

        Raises:
            InputError: unless it is a share; the number of an epoch is not.
        """
        check_value("training (the share that is done)", training, Done)
        return geometric(self.alpha_start, self.alpha_end, training)

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float
    ) -> Float[Tensor, ""]:
        positives, negatives = checked_scores(positives, negatives)
        negatives = margin(negatives, self.eqco_alpha)
        positive, counts = all_gather_with_grad(positives[:, 0]), all_gather(present(negatives))
        log_sums = all_gather_with_grad(log_sum(negatives.flatten())[None])
        return _mlcpc(positive, counts, log_sums, self.alpha(training))

    def ceiling(self, positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], training: float) -> Float[Tensor, ""]:
        return mlcpc_ceiling(negatives, self.alpha(training), self.eqco_alpha)

    def gradient_scale(self, training: float) -> float:
        return 1 / self.alpha(training) if self.divide_by_alpha else 1.0

    def warnings(self, negatives: int, queries: int) -> list[str]:
        m = 1 + negatives
        warnings = [
            mlcpc_warning(effective_alpha(alpha, m, self.eqco_alpha), m, queries)
            for alpha in dict.fromkeys((self.alpha_start, self.alpha_end))
        ]
        return [warning for warning in warnings if warning is not None]
