"""The binary example in closed form: X = Y, n = m pairs a batch, the other pairs' y as negatives.

A batch with t pairs (1, 1) has only one value of each bound, so mean and variance are sums over t. The critic is the
paper's: the same score for every equal pair, none for an unequal one; at p = 1/2 it is the ideal one. The paper prints
the value at alpha 1; the values at other alphas follow from its Eqs. 4 and 6 in the same way.

Source: Song and Ermon 2020, arXiv:2007.09852, Example 1, Appendix C.1, Eq. 36.
"""

import math
from collections.abc import Callable
from typing import NamedTuple


class Moments(NamedTuple):
    """Of a bound over batches: mean in nats, and variance."""

    mean: float
    variance: float


def cpc_of_batch(t: int, m: int, alpha: float) -> float:
    """alpha-CPC of a batch with t pairs (1, 1) and m - t pairs (0, 0), in nats: log 2 for t = 1, m = 2, alpha 1."""
    beta = (m - alpha) / (m - 1)
    return sum(part * math.log(m / (alpha + beta * (part - 1))) for part in (t, m - t) if part) / m


def mlcpc_of_batch(t: int, m: int, alpha: float) -> float:
    """alpha-ML-CPC of such a batch, in nats; 0 for a batch of equal pairs at alpha 1."""
    beta = (m - alpha) / (m - 1)
    equal = sum(part * (part - 1) for part in (t, m - t))  # negatives that look like a positive
    return math.log(m * m / (alpha * m + beta * equal))


def moments(of_batch: Callable[[int, int, float], float], m: int, alpha: float, p: float) -> Moments:
    """Mean and variance over batches of m pairs, each (1, 1) with probability p.

    0.4774 nats for CPC at m = 3, alpha 1, p = 1/2.
    """
    chances = [math.comb(m, t) * p**t * (1 - p) ** (m - t) for t in range(m + 1)]
    values = [of_batch(t, m, alpha) for t in range(m + 1)]
    batches = list(zip(chances, values, strict=True))
    mean = sum(chance * value for chance, value in batches)
    return Moments(mean, sum(chance * (value - mean) ** 2 for chance, value in batches))
