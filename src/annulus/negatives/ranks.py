"""Shares of a memory as ranks, closest first."""

import math
from numbers import Real

from annulus.errors import InputError


def rank_limits(inner: float, outer: float, others: int) -> tuple[int, int]:
    """First rank of a set and first rank beyond it, of `others` ranked rows.

    Raises:
        InputError: unless the borders are shares in their order, with a row between them.
    """
    if not (isinstance(inner, Real) and isinstance(outer, Real) and 0 <= inner < outer <= 1):
        raise InputError(
            f"inner {inner} and outer {outer} are not the borders of a ring; give shares of the memory, closest "
            "first: 0 <= inner < outer <= 1"
        )
    # Rounded before floor, which would otherwise lose a row: 0.29 * 100 is 28.999...
    first, last = (math.floor(round(share * others, 6)) for share in (inner, outer))
    if first == last:
        raise InputError(
            f"negatives of ranks [{inner:.4g}, {outer:.4g}) hold none of the memory's {others} other rows; "
            "widen the sampler or take a larger memory"
        )
    return first, last


def kept_shares(shares: tuple[float, float], progress: float) -> tuple[float, float]:
    """(inner, outer) of a set between the whole memory (progress 0) and the sampler's set (1).

    Both borders move linearly: the outer ball shrinks while the inner ball grows.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3.

    Raises:
        InputError: unless progress is a share.
    """
    if not 0 <= progress <= 1:
        raise InputError(f"progress {progress} of annealing: give a share, 0 (the whole memory) to 1 (the set itself)")
    inner, outer = shares
    return inner * progress, 1 + (outer - 1) * progress
