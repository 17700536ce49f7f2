"""Numbers with 95 % intervals, and what comparisons of them say: true, false, no effect or undecided.

A comparison is true or false where the interval of the two sides' difference excludes the other verdict. Where one of
several comparisons would decide a rule, it has to do so with Bonferroni's correction for their number. A strict
comparison of accuracies has no effect where that interval holds 0 and lies within the smallest effect of interest. A
difference has the root of its half-widths' squares, as for independent numbers. Two runs that share seeds and test
images are compared by their gain, one number with an interval of its own. Two gains over one base are compared by their
difference; unless the file has each seed's, its interval is too wide, since both gains hold the base's error. Sums and
means have the sum and mean of half-widths, since numbers of the same encoders err together.

If two numbers have values of the same seeds, their difference, sum or mean is computed for each seed. Its interval is
over the seeds (Student's t), and not over test images, so it can be narrower than one over both.
"""

import itertools
import math
import operator
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal, NamedTuple

from scipy.stats import norm
from scipy.stats import t as student_t

from annulus.evals.intervals import over_seeds

ROUNDING = 1e-9  # of differences of printed numbers
# Points: a convention of this project. A claim whose printed effect is smaller has that one in its place.
SMALLEST_EFFECT = 0.5
SMALLEST_PRECISION = 0.2  # of average precision: the smallest printed gain of boxes, in mutualinfo Table 4


class ClaimNumber(NamedTuple):
    """A number and half of its interval: 0 for an exact number, infinite where one seed shows none.

    `smallest` is the smallest effect of interest in its unit; 0 for a unit without one. `seeds` holds each seed and its
    value, where the file has them.
    """

    value: float
    half: float = 0.0
    smallest: float = 0.0
    seeds: tuple[tuple[int, float], ...] = ()


class Share(ClaimNumber):
    """Of several comparisons, from those that are true to those that may be."""


Value = float | ClaimNumber | list[float] | list[ClaimNumber]


@dataclass(frozen=True)
class Truth:
    """True, false or undecided; `seen` is half of the widest interval that leaves it undecided.

    `share`: that interval is a share of comparisons, in no unit. `no_effect`: false, since the sides of all
    comparisons, or of a part of them, differ by less than the smallest effect of interest.

    What is decided has `half` of its interval, `halves`, by how many halves it is decided, and the seeds' degrees of
    freedom, if it has the numbers of seeds. `refuting`, `affirming`: how many comparisons could have decided it so.
    """

    holds: bool | None
    seen: float = 0.0
    share: bool = False
    no_effect: Literal["", "part", "all"] = ""
    half: float = field(default=0.0, compare=False)
    halves: float = field(default=math.inf, compare=False)
    freedom: int | None = field(default=None, compare=False)
    refuting: int = field(default=1, compare=False)
    affirming: int = field(default=1, compare=False)

    def negated(self) -> "Truth":
        if self.holds is None:
            return self
        return replace(self, holds=not self.holds, no_effect="", refuting=self.affirming, affirming=self.refuting)

    def survives(self, comparisons: int) -> bool:
        """True if Bonferroni's correction for so many comparisons leaves it decided."""
        return self.halves >= _wider(comparisons, self.freedom)

    def width(self) -> tuple[bool, float]:
        """By which the widest is chosen: shares have no unit, and come last."""
        return not self.share, self.seen


@cache
def _wider(comparisons: int, freedom: int | None) -> float:
    """Factor by which Bonferroni's correction for so many comparisons widens a 95 % interval."""
    far = norm if freedom is None else student_t(freedom)
    return float(far.ppf(1 - 0.025 / comparisons) / far.ppf(0.975))


def every(truths: Iterable[Truth]) -> Truth:
    """Kleene's "and": undecided only where what is undecided could change it.

    One false comparison refutes all. So it has to be false with Bonferroni's correction for their number.
    """
    truths = list(truths)
    refuting, affirming = sum(one.refuting for one in truths), max((one.affirming for one in truths), default=1)
    false = [truth for truth in truths if truth.holds is False]
    told = [truth for truth in false if truth.no_effect or truth.survives(refuting)]
    if told:
        of_parts = _of_parts(truths) if all(truth.no_effect for truth in told) else ""
        return replace(max(told, key=_clarity), no_effect=of_parts, refuting=refuting, affirming=affirming)
    corrected = [Truth(None, one.half * _wider(refuting, one.freedom)) for one in false]
    if undecided := [truth for truth in truths if truth.holds is None] + corrected:
        return max(undecided, key=Truth.width)
    return replace(min(truths, key=_clarity, default=Truth(True)), refuting=refuting, affirming=affirming)


def some(truths: Iterable[Truth]) -> Truth:
    """Kleene's "or", as the negation of every negation."""
    truths = list(truths)
    found = every(truth.negated() for truth in truths).negated()
    return replace(found, no_effect=_of_parts(truths)) if found.holds is False else found


def _clarity(truth: Truth) -> float:
    return truth.halves


def _of_parts(truths: list[Truth]) -> Literal["", "part", "all"]:
    effects = {truth.no_effect for truth in truths}
    return "all" if effects == {"all"} else "part" if effects - {""} else ""


class RuleFault(Exception):
    """A rule that these numbers do not fit: a NaN, a division by zero, lists of unlike length."""


def compared(compare: Callable[[float, float], bool], left: ClaimNumber, right: ClaimNumber) -> Truth:
    # A number that meets itself, such as the largest of a list that is also its last, has no error to differ by.
    half = 0.0 if left is right else difference(left, right).half
    if half == 0:
        return Truth(compare(left.value, right.value))
    ends = {compare(_snapped(left.value + side, right.value), right.value) for side in (-half, half)}
    if len(ends) == 1:
        apart = difference(left, right)
        halves, freedom = abs(apart.value) / half, len(apart.seeds) - 1 if apart.seeds else None
        return Truth(ends.pop(), half=half, halves=halves, freedom=freedom)
    strict = compare in (operator.lt, operator.gt)
    if strict and abs(left.value - right.value) + half <= _smallest(left, right):
        return Truth(False, no_effect="all")
    return Truth(None, half, isinstance(left, Share) or isinstance(right, Share))


def _smallest(left: ClaimNumber, right: ClaimNumber) -> float:
    """The smallest effect of interest of a comparison of two measured sides, or of one with 0."""
    return (
        0.0 if any(one.smallest == 0 and one.value != 0 for one in (left, right)) else left.smallest or right.smallest
    )


def _snapped(end: float, to: float) -> float:
    """An end that differs from a number by its rounding alone is that number: 9 of 13 and a half of 1 twice are 10."""
    return to if math.isclose(end, to, rel_tol=1e-12, abs_tol=1e-12) else end


def summed(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    return _combined(operator.add, [left, right], left.half + right.half)


def difference(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    return _combined(operator.sub, [left, right], math.hypot(left.half, right.half), _smallest(left, right))


def _combined(
    compute: Callable[..., float], numbers: Sequence[ClaimNumber], half: float, smallest: float = 0.0
) -> ClaimNumber:
    """`compute` of the numbers, and of each seed's values; `half` is replaced if several have values of the same seeds.

    An exact number counts as the same for every seed.
    """
    known = {tuple(seed for seed, _ in number.seeds) for number in numbers if number.seeds}
    by_seed: list[tuple[int, float]] = []
    if len(known) == 1 and all(number.seeds or number.half == 0 for number in numbers):
        (seeds,) = known
        columns = [[value for _, value in number.seeds] or [number.value] * len(seeds) for number in numbers]
        by_seed = list(zip(seeds, map(compute, *columns), strict=True))
        if sum(bool(number.seeds) for number in numbers) > 1:
            over = over_seeds([value for _, value in by_seed]).half
            half = math.inf if over is None else over
    return ClaimNumber(compute(*(number.value for number in numbers)), half, smallest, tuple(by_seed))


def magnitude(number: ClaimNumber) -> ClaimNumber:
    """The number without its sign, which each seed's value loses too where it is the same."""
    sign = math.copysign(1.0, number.value)
    return number._replace(value=abs(number.value), seeds=tuple((seed, sign * value) for seed, value in number.seeds))


def near(number: ClaimNumber, printed: ClaimNumber) -> Truth:
    """True if the number's interval holds a printed one."""
    if math.isinf(number.half):
        return Truth(None, number.half)
    away, freedom = abs(number.value - printed.value), len(number.seeds) - 1 if number.seeds else None
    halves = away / number.half if number.half else math.inf
    return Truth(away <= number.half + ROUNDING, half=number.half, halves=halves, freedom=freedom)


def product(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    if left.half and right.half:
        raise RuleFault("a product of two numbers with intervals")
    return _combined(operator.mul, [left, right], left.half * abs(right.value) + right.half * abs(left.value))


def quotient(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    if right.half:
        raise RuleFault("a division by a number with an interval")
    return _combined(operator.truediv, [left, right], left.half / abs(right.value))


def steps(compare: Callable[[float, float], bool]) -> Callable[[list[ClaimNumber]], Truth]:
    return lambda values: every(compared(compare, after, before) for before, after in itertools.pairwise(values))


def mean(values: list[ClaimNumber]) -> ClaimNumber:
    half, smallest = (statistics.fmean(getattr(one, name) for one in values) for name in ("half", "smallest"))
    return _combined(lambda *numbers: statistics.fmean(numbers), values, half, smallest)


def share(truths: list[Truth]) -> Share:
    least, undecided = (sum(truth.holds is kind for truth in truths) / len(truths) for kind in (True, None))
    return Share(least + undecided / 2, undecided / 2)
