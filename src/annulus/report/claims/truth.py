"""Numbers with 95 % intervals, and what comparisons of them say: true, false or undecided.

A comparison is true or false where the interval of the two sides' difference excludes the other verdict. A difference
has the root of its half-widths' squares, as for independent numbers; where two runs share seeds and test images that is
too wide, and their paired difference is one number with an interval of its own. Sums and means have the sum and mean of
half-widths, since numbers of the same encoders err together.
"""

import itertools
import math
import statistics
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Estimate(NamedTuple):
    """A number and half of its interval: 0 for an exact number, infinite where one seed shows none."""

    value: float
    half: float = 0.0


class Share(Estimate):
    """Of several comparisons, from those that are true to those that may be."""


Value = float | Estimate | list[float] | list[Estimate]


@dataclass(frozen=True)
class Truth:
    """True, false or undecided; `seen` is half of the widest interval that leaves it undecided.

    `share`: that interval is a share of comparisons, in no unit.
    """

    holds: bool | None
    seen: float = 0.0
    share: bool = False

    def negated(self) -> "Truth":
        return self if self.holds is None else Truth(not self.holds)

    def width(self) -> tuple[bool, float]:
        """By which the widest is chosen: shares have no unit, and come last."""
        return not self.share, self.seen


def every(truths: Iterable[Truth]) -> Truth:
    """Kleene's "and": undecided only where what is undecided could change it."""
    truths = list(truths)
    if any(truth.holds is False for truth in truths):
        return Truth(False)
    undecided = [truth for truth in truths if truth.holds is None]
    return max(undecided, key=Truth.width) if undecided else Truth(True)


def some(truths: Iterable[Truth]) -> Truth:
    """Kleene's "or"."""
    return every(truth.negated() for truth in truths).negated()


class RuleFault(Exception):
    """A rule that these numbers do not fit: a NaN, a division by zero, lists of unlike length."""


def compared(compare: Callable[[float, float], bool], left: Estimate, right: Estimate) -> Truth:
    # A number that meets itself, such as the largest of a list that is also its last, has no error to differ by.
    half = 0.0 if left is right else math.hypot(left.half, right.half)
    if half == 0:
        return Truth(compare(left.value, right.value))
    ends = {compare(_snapped(left.value + side, right.value), right.value) for side in (-half, half)}
    return (
        Truth(ends.pop()) if len(ends) == 1 else Truth(None, half, isinstance(left, Share) or isinstance(right, Share))
    )


def _snapped(end: float, to: float) -> float:
    """An end that differs from a number by its rounding alone is that number: 9 of 13 and a half of 1 twice are 10."""
    return to if math.isclose(end, to, rel_tol=1e-12, abs_tol=1e-12) else end


def summed(left: Estimate, right: Estimate) -> Estimate:
    return Estimate(left.value + right.value, left.half + right.half)


def difference(left: Estimate, right: Estimate) -> Estimate:
    return Estimate(left.value - right.value, math.hypot(left.half, right.half))


def product(left: Estimate, right: Estimate) -> Estimate:
    if left.half and right.half:
        raise RuleFault("a product of two numbers with intervals")
    return Estimate(left.value * right.value, left.half * abs(right.value) + right.half * abs(left.value))


def quotient(left: Estimate, right: Estimate) -> Estimate:
    if right.half:
        raise RuleFault("a division by a number with an interval")
    return Estimate(left.value / right.value, left.half / abs(right.value))


def steps(compare: Callable[[float, float], bool]) -> Callable[[list[Estimate]], Truth]:
    return lambda values: every(compared(compare, after, before) for before, after in itertools.pairwise(values))


def mean(values: list[Estimate]) -> Estimate:
    return Estimate(*map(statistics.fmean, zip(*values, strict=True)))


def share(truths: list[Truth]) -> Share:
    least, undecided = (sum(truth.holds is kind for truth in truths) / len(truths) for kind in (True, None))
    return Share(least + undecided / 2, undecided / 2)
