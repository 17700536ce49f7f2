"""EqCo's margin: as if a query had another number of negatives."""

import math
from numbers import Real

from jaxtyping import Float
from torch import Tensor

from annulus.bounds.bound import in_full, present
from annulus.errors import InputError


def margin(negatives: Float[Tensor, "b k"], eqco_alpha: float | None) -> Float[Tensor, "b k"]:
    """Negatives shifted by log(eqco_alpha/k), so that a query's k present negatives count as `eqco_alpha`; None: as k.

    eqco_alpha = k changes nothing; twice k adds log 2. The paper subtracts this shift, times the temperature, from the
    positive's similarity: the same loss. Source: Zhu et al. 2020, arXiv:2010.01929, Eqs. 5 and 10.

    Raises:
        InputError: when eqco_alpha is not above 0.
    """
    if eqco_alpha is None:
        return negatives
    if not (isinstance(eqco_alpha, Real) and 0 < eqco_alpha < math.inf):
        shown = f"{eqco_alpha:g}" if isinstance(eqco_alpha, Real) else repr(eqco_alpha)
        raise InputError(
            f"eqco_alpha is {shown}; it is a number of negatives and must be above 0: "
            "choose about as many as a large memory holds, such as 65536, or None for no margin"
        )
    negatives = in_full(negatives)
    counts = present(negatives).clamp(min=1).to(negatives.dtype)  # a query without negatives has none to shift
    return negatives + (math.log(eqco_alpha) - counts.log())[:, None]


def effective_alpha(alpha: float, m: int, eqco_alpha: float | None) -> float:
    """The alpha of cpc or mlcpc that gives, without a margin, the weights that this alpha has with it.

    `m` is the number of candidates. An alpha of m or more, which no bound accepts, is returned as it is.
    """
    if eqco_alpha is None or alpha >= m:
        return alpha
    beta = (m - alpha) / (m - 1)
    return m / (1 + beta * eqco_alpha / alpha)
