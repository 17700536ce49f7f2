"""EqCo's margin: the loss of a query with another number of negatives."""

import math

from jaxtyping import Float
from torch import Tensor

from annulus.bounds.bound import in_full, present


def margin(negatives: Float[Tensor, "b k"], eqco_alpha: float | None) -> Float[Tensor, "b k"]:
    """Shifts negatives by log(eqco_alpha/k), so a query's k present negatives count as `eqco_alpha`; None: no shift.

    eqco_alpha = k shifts by 0, twice k by log 2. The paper subtracts this shift, times the temperature, from the
    positive's similarity: the same loss. Source: Zhu et al. 2020, arXiv:2010.01929, Eqs. 5 and 10.
    """
    if eqco_alpha is None:
        return negatives
    negatives = in_full(negatives)
    counts = present(negatives).clamp(min=1).to(negatives.dtype)  # a query without negatives has none to shift
    return negatives + (math.log(eqco_alpha) - counts.log())[:, None]


def effective_alpha(alpha: float, m: int, eqco_alpha: float | None) -> float:
    """The alpha of cpc or mlcpc whose weights without a margin equal the weights of this alpha with it.

    `m` is the number of candidates. An alpha of m or more is returned unchanged; no bound accepts it.
    """
    if eqco_alpha is None or alpha >= m:
        return alpha
    beta = (m - alpha) / (m - 1)
    return m / (1 + beta * eqco_alpha / alpha)
