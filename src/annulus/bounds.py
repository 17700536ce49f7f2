"""Scores to nats. Pure functions: no device, no random numbers, no memory.

Scores are similarities already divided by the temperature, a row per query; an entry of -inf is absent, and counts
nowhere. Positives are what a query should find, the first or only one being its own row or other view; further ones
are its neighbours. Every loss is in nats, mean over queries, and each has a ceiling: its value when all scores are
equal. Ceiling minus loss is the estimate of mutual information, so at chance it is 0; it is at most the ceiling.

Source: van den Oord et al. 2018; papers/mutualinfo, ring, mlcpc, eqco.
"""

import math

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor
from torch.nn.functional import logsigmoid

from annulus.errors import InputError


def present(scores: Float[Tensor, "b k"]) -> Int[Tensor, "b"]:
    """How many scores of each query are not absent."""
    return (scores != -torch.inf).sum(dim=1)


def _log_sum(negatives: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
    """logsumexp over the last axis. With nothing present it is hugely negative, and its gradient 0 rather than NaN."""
    return negatives.clamp(min=torch.finfo(negatives.dtype).min).logsumexp(dim=-1)


# --- softmax over one query's candidates --------------------------------------------------------------


def infonce(positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"]) -> Float[Tensor, ""]:
    """-log of the softmax's mass on the positives, among 1 + k candidates where there is one positive.

    At chance log(1 + k/p): log 2 for one positive and one negative. log(1 + k) minus the loss bounds mutual
    information from below. Never negative, in any precision.

    Source: van den Oord et al. 2018, eq. 4; mutualinfo section 2 (IR-nce, whose K counts the positive too, and
    X + neighbours, which sums the positives inside the log).
    """
    # The log odds of positives against negatives keep the small losses that a difference of logsumexps would round off.
    return -logsigmoid(positives.logsumexp(dim=1) - _log_sum(negatives)).mean()


def infonce_ceiling(
    positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], eqco_alpha: float | None = None
) -> Float[Tensor, ""]:
    """log(1 + k/p) for numbers of positives and negatives: log(1 + k) without neighbours.

    `eqco_alpha` stands for k where `margin` shifted the negatives: log(1 + eqco_alpha) without neighbours.

    Source: mutualinfo section 3, 2; eqco section 3, 6 and 7.
    """
    total = negatives if eqco_alpha is None else eqco_alpha
    return (total / positives).log1p().mean()


def la(close: Float[Tensor, "b c"], background: Float[Tensor, "b n"]) -> Float[Tensor, ""]:
    """-log of the share that the close neighbours have of the background, which holds them too.

    At chance log(n/c): log 2 where half of the background is close.

    Source: mutualinfo section 2 (LA-nce); ring eq. 5 is `la_ceiling` minus this.
    """
    return (background.logsumexp(dim=1) - close.logsumexp(dim=1)).mean()


def la_ceiling(close: Int[Tensor, "b"], background: Int[Tensor, "b"]) -> Float[Tensor, ""]:
    """log(n/c) for sizes of the background and the close set in it: the constant of ring eq. 5."""
    return (background / close).log().mean()


def la_original(
    close: Float[Tensor, "b c"],
    background: Float[Tensor, "b n"],
    log_partition: Float[Tensor, "b"] | Float[Tensor, ""],
) -> Float[Tensor, ""]:
    """-(log p(C) - log p(B)) with p(i) = exp(score) / Z: equal to `la`, since Z cancels.

    Source: Zhuang et al. 2019; mutualinfo section 2 (LA original) and Lemma B.3.
    """
    log_close = close.logsumexp(dim=1) - log_partition
    log_background = background.logsumexp(dim=1) - log_partition
    return -(log_close - log_background).mean()


# --- alpha: the positive's weight in the denominator --------------------------------------------------


def _log_weight(negatives: Num[Tensor, "*b"], alpha: float) -> Float[Tensor, "*b"]:
    """log(beta/alpha), a negative's weight beside a positive's: beta = (m - alpha)/(m - 1), m = 1 + negatives.

    0 at alpha 1, log 4 at alpha 1/3 and m = 3. Source: mlcpc section 1.

    Raises:
        InputError: when alpha is outside (0, m), where a weight would not be positive.
    """
    fewest = negatives.min().item()
    assert fewest > 0, "a query without negatives"  # who chose the negatives refuses that
    if not 0 < alpha < 1 + fewest:
        raise InputError(
            f"alpha is {alpha:g} with m = {1 + fewest:g} candidates, a positive and {fewest:g} negatives; it must be "
            "above 0 and below m: choose alpha 1 for plain cpc, or more negatives for a larger alpha"
        )
    return ((1 + negatives - alpha) / (negatives * alpha)).log()


def cpc(positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], alpha: float) -> Float[Tensor, ""]:
    """InfoNCE with weight alpha on a positive and beta = (m - alpha)/(m - 1) on each of m - 1 negatives.

    At chance log(m/alpha) for one positive; alpha 1 is `infonce`. m counts a query's present negatives.

    Source: alpha-CPC, mlcpc eq. 4, as log(m/alpha) - L_alpha.

    Raises:
        InputError: when alpha is outside (0, m).
    """
    # Weighing the few positives down is weighing the many negatives up.
    log_weight = _log_weight(present(negatives).to(negatives.dtype), alpha)
    return infonce(positives - log_weight[:, None], negatives)


def cpc_ceiling(
    positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], alpha: float, eqco_alpha: float | None = None
) -> Float[Tensor, ""]:
    """log(1 + k beta/(p alpha)) for numbers of positives and negatives: log(m/alpha) without neighbours.

    `eqco_alpha` stands for k, though not in m, where `margin` shifted the negatives. Source: mlcpc section 3, 2.

    Raises:
        InputError: when alpha is outside (0, m).
    """
    total = negatives if eqco_alpha is None else eqco_alpha
    return (_log_weight(negatives, alpha).exp() * total / positives).log1p().mean()


def cpc_warning(alpha: float, m: int) -> str | None:
    """What is lost at this alpha with m candidates, in a sentence; None from alpha 1 on, where nothing is.

    The paper proves no bound above m/2. It holds up to m all the same: shares x_i of a sum of 1 turn Prop. 2's
    expectation into sum_i x_i / (beta + (alpha - beta) x_i), concave for alpha >= beta, so at most its value 1 at
    x_i = 1/m; for alpha < 1 it is convex, so at most its value 1/alpha at a corner (mlcpc section 3, 8).
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

    At chance log(m/alpha); with one query `cpc`. Where queries have different numbers of negatives, m is their mean
    plus 1, so that all negatives weigh the same.

    Source: alpha-ML-CPC, mlcpc eq. 6, as log(m/alpha) - J_alpha, which is the KL of its Algorithm 1.

    Raises:
        InputError: when alpha is outside (0, m).
    """
    log_weight = _log_weight(present(negatives).to(negatives.dtype).mean(), alpha)
    log_odds = positive.logsumexp(dim=0) - log_weight - _log_sum(negatives.flatten())
    uneven = (positive - positive.mean()).logsumexp(dim=0) - math.log(len(positive))  # 0 when all score the same
    return uneven - logsigmoid(log_odds)


def mlcpc_ceiling(negatives: Int[Tensor, "b"], alpha: float, eqco_alpha: float | None = None) -> Float[Tensor, ""]:
    """log(m/alpha) for numbers of negatives; `eqco_alpha` as in `cpc_ceiling`. Source: mlcpc section 3, 2.

    Raises:
        InputError: when alpha is outside (0, m).
    """
    mean = negatives.float().mean()
    return (_log_weight(mean, alpha).exp() * (mean if eqco_alpha is None else eqco_alpha)).log1p()


def mlcpc_lower_alpha(m: int, n: int) -> float:
    """The smallest alpha with a proven bound, for n positives of m candidates each: 3/7 for n = m = 3.

    log(m/alpha) is then log(n (m - 1) + 1). Source: alpha_{m,n}, mlcpc section 1.
    """
    return m / (n * (m - 1) + 1)


def mlcpc_warning(alpha: float, m: int, n: int) -> str | None:
    """What is lost at this alpha with n queries of m candidates, in a sentence; None where nothing is.

    A query stands against all n (m - 1) negatives (proof of mlcpc Thm 2), which makes this `cpc` with
    n (m - 1) + 1 candidates and alpha / alpha_{m,n}.
    """
    lowest = mlcpc_lower_alpha(m, n)
    if alpha >= lowest:
        return None
    return (
        f"mlcpc with alpha {alpha:g} is not a lower bound: below m/(n(m-1)+1) = {lowest:.4g} for n = {n} queries of "
        f"m = {m} candidates it may exceed the information by up to {math.log(lowest / alpha):.3g} nats"
    )


def geometric(start: float, end: float, share: float) -> float:
    """alpha when this share of training is done, start (end/start)^share: 1 at half of 10 to 0.1.

    Source: mlcpc section 5.3; `share` moves at every step.
    """
    return start * (end / start) ** share


# --- EqCo -------------------------------------------------------------------------------------------------


def margin(negatives: Float[Tensor, "b k"], eqco_alpha: float) -> Float[Tensor, "b k"]:
    """Negatives shifted by log(eqco_alpha/k), so that a query's k present ones count as many as `eqco_alpha`.

    eqco_alpha = k changes nothing; twice k adds log 2. Eqco takes this shift off the positive instead, times the
    temperature, off its similarity: the same loss. Source: eqco eq. 5 and 10.

    Raises:
        InputError: when eqco_alpha is not above 0.
    """
    if not 0 < eqco_alpha < math.inf:
        raise InputError(
            f"eqco_alpha is {eqco_alpha:g}; it is a number of negatives and must be above 0: "
            "choose about as many as a large memory holds, such as 65536, or null for no margin"
        )
    counts = present(negatives).clamp(min=1).to(negatives.dtype)  # a query without negatives has none to shift
    return negatives + (math.log(eqco_alpha) - counts.log())[:, None]


# --- noise-contrastive estimation -----------------------------------------------------------------------


def nce(
    positive: Float[Tensor, "b"],
    negatives: Float[Tensor, "b k"],
    log_partition: Float[Tensor, "b"] | Float[Tensor, ""],
    rows: int,
) -> Float[Tensor, ""]:
    """Telling the positive from k draws of uniform noise over `rows` rows, one by one; summed over the negatives.

    P = exp(score)/Z is called data with probability P/(P + k/rows). Where that is 1/2 for all, (1 + k) log 2.
    Not a bound on information: report InfoNCE of the same scores.

    Source: Wu et al. 2018, section 3.2; as their authors' later code has it. mutualinfo section 2 prints IR (original)
    as a softmax with a constant instead, whose estimate is InfoNCE's but for that constant.
    """
    counts = present(negatives).clamp(min=1).to(negatives.dtype)
    even = log_partition + (counts / rows).log()  # the score at which data and noise are as likely
    return -(logsigmoid(positive - even) + logsigmoid(even[:, None] - negatives).sum(dim=1)).mean()
