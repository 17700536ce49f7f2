"""Shares of a memory as ranks, closest first."""

import math
from numbers import Real

from annulus.errors import InputError


def rank_limits(inner: float, outer: float, others: int) -> tuple[int, int]:
    """First rank kept and first rank beyond, of `others` ranked rows.

    Raises:
        InputError: when the borders are no shares in their order, or no row lies between them.
    """
    if not (isinstance(inner, Real) and isinstance(outer, Real) and 0 <= inner < outer <= 1):
        raise InputError(
            f"inner {inner} and outer {outer} are no borders of a ring; they are shares of the memory, closest "
            "first: 0 <= inner < outer <= 1"
        )
    # Rounding first: 0.29 * 100 is 28.999..., and floor would lose a row to it.
    first, last = (math.floor(round(share * others, 6)) for share in (inner, outer))
    if first == last:
        raise InputError(
            f"negatives of ranks [{inner:.4g}, {outer:.4g}) hold none of the memory's {others} other rows; "
            "widen the sampler or take a larger memory"
        )
    return first, last


def kept_shares(shares: tuple[float, float], progress: float) -> tuple[float, float]:
    """(inner, outer) on the way from the whole memory (progress 0) to the sampler's own set (1).

    Both borders move in a straight line: while the outer ball shrinks, the inner one grows.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3.

    Raises:
        InputError: when progress is no share.
    """
    if not 0 <= progress <= 1:
        raise InputError(f"progress {progress} of annealing: give a share, 0 (the whole memory) to 1 (the set itself)")
    inner, outer = shares
    return inner * progress, 1 + (outer - 1) * progress
