"""EqCo's margin: as if a query had another number of negatives."""

import math

from jaxtyping import Float
from torch import Tensor

from annulus.bounds.infonce import present
from annulus.errors import InputError


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
