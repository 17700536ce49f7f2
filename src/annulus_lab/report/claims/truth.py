"""Numbers with 95 % intervals, and truth values of their comparisons: true, false, no effect or undecided.

A comparison is true or false if the interval of the two sides' difference excludes the other verdict. If one of
several comparisons decides a rule, it must do so with Bonferroni's correction for their number. A strict comparison of
accuracies has no effect if that interval holds 0 and lies within the smallest effect of interest.

The half-width of a difference is the root of the sum of both squared half-widths, as for independent numbers. Rules
compare two runs that share seeds and test images by their gain, one number with its own interval. They compare two
gains over one base by the difference. Without each seed's gain its interval is too wide, since both gains hold the
base's error. The half-widths of a sum are added and those of a mean averaged, since the errors of numbers of the same
encoders are correlated.

If two numbers have values of the same seeds, their difference, sum or mean is computed for each seed. Its interval is
over the seeds (Student's t) and omits the test images, so it can be narrower than an interval over both
(stages/README.md says by how much).
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
# Points: a convention of this project. A claim whose printed effect is smaller uses the printed effect.
SMALLEST_EFFECT = 0.5
SMALLEST_PRECISION = 0.2  # of average precision: the smallest printed gain of boxes, in mutualinfo Table 4


class ClaimNumber(NamedTuple):
    """A number and half of its interval: 0 for an exact number, infinite for one seed.

    `smallest`: smallest effect of interest in its unit; 0 for a unit without one. `seeds`: each seed and its value, if
    the file has them.
    """

    value: float
    half: float = 0.0
    smallest: float = 0.0
    seeds: tuple[tuple[int, float], ...] = ()


class Share(ClaimNumber):
    """Share of comparisons that are true; the upper end of its interval counts the undecided ones too."""


Value = float | ClaimNumber | list[float] | list[ClaimNumber]


@dataclass(frozen=True)
class Truth:
    """True, false or undecided; `undecided_half` is half of the widest interval that leaves it undecided.

    `share`: that interval is a share of comparisons, without a unit. `no_effect`: false, since the sides of all or a
    part of the comparisons differ by less than the smallest effect of interest.

    A decided truth has `half` of its interval and its distance from the border in such `halves`. `freedom`: degrees of
    freedom of the seeds, if it has their values. `refuting`, `affirming`: number of comparisons that can refute it,
    that can affirm it.
    """

    holds: bool | None
    undecided_half: float = 0.0
    share: bool = False
    no_effect: Literal["", "part", "all"] = ""
    half: float = field(default=0.0, compare=False)
    halves: float = field(default=math.inf, compare=False)
    freedom: int | None = field(default=None, compare=False)
    refuting: int = field(default=1, compare=False)
    affirming: int = field(default=1, compare=False)

    def negate(self) -> "Truth":
        if self.holds is None:
            return self
        return replace(self, holds=not self.holds, no_effect="", refuting=self.affirming, affirming=self.refuting)

    def survives(self, comparisons: int) -> bool:
        """True if it is decided with Bonferroni's correction for this number of comparisons."""
        return self.halves >= _bonferroni_factor(comparisons, self.freedom)

    def width(self) -> tuple[bool, float]:
        """Sort key of the widest interval: shares have no unit and sort below numbers."""
        return not self.share, self.undecided_half


@cache
def _bonferroni_factor(comparisons: int, freedom: int | None) -> float:
    """Factor by which Bonferroni's correction for this number of comparisons widens a 95 % interval."""
    far = norm if freedom is None else student_t(freedom)
    return float(far.ppf(1 - 0.025 / comparisons) / far.ppf(0.975))


def every(truths: Iterable[Truth]) -> Truth:
    """Kleene's "and": undecided only if an undecided truth can change it.

    One false comparison refutes all, so it must be false with Bonferroni's correction for their number.
    """
    truths = list(truths)
    refuting, affirming = sum(one.refuting for one in truths), max((one.affirming for one in truths), default=1)
    false = [truth for truth in truths if truth.holds is False]
    deciding = [truth for truth in false if truth.no_effect or truth.survives(refuting)]
    if deciding:
        effect = _partial_effect(truths) if all(truth.no_effect for truth in deciding) else ""
        return replace(max(deciding, key=_clarity), no_effect=effect, refuting=refuting, affirming=affirming)
    corrected = [Truth(None, one.half * _bonferroni_factor(refuting, one.freedom)) for one in false]
    if undecided := [truth for truth in truths if truth.holds is None] + corrected:
        return max(undecided, key=Truth.width)
    return replace(min(truths, key=_clarity, default=Truth(True)), refuting=refuting, affirming=affirming)


def some(truths: Iterable[Truth]) -> Truth:
    """Kleene's "or": the negation of `every` over the negations."""
    truths = list(truths)
    negation = every(truth.negate() for truth in truths).negate()
    return replace(negation, no_effect=_partial_effect(truths)) if negation.holds is False else negation


def _clarity(truth: Truth) -> float:
    return truth.halves


def _partial_effect(truths: list[Truth]) -> Literal["", "part", "all"]:
    effects = {truth.no_effect for truth in truths}
    return "all" if effects == {"all"} else "part" if effects - {""} else ""


class RuleFault(Exception):
    """A rule cannot be computed of these numbers: a NaN, a division by zero, lists of different lengths."""


def comparison(compare: Callable[[float, float], bool], left: ClaimNumber, right: ClaimNumber) -> Truth:
    # A number compared with itself, such as the largest of a list that is also its last, has an exact difference of 0.
    half = 0.0 if left is right else difference(left, right).half
    if half == 0:
        return Truth(compare(left.value, right.value))
    ends = {compare(_snap(left.value + side, right.value), right.value) for side in (-half, half)}
    if len(ends) == 1:
        apart = difference(left, right)
        halves, freedom = abs(apart.value) / half, len(apart.seeds) - 1 if apart.seeds else None
        return Truth(ends.pop(), half=half, halves=halves, freedom=freedom)
    strict = compare in (operator.lt, operator.gt)
    if strict and abs(left.value - right.value) + half <= _smallest(left, right):
        return Truth(False, no_effect="all")
    return Truth(None, half, isinstance(left, Share) or isinstance(right, Share))


def _smallest(left: ClaimNumber, right: ClaimNumber) -> float:
    """Returns the smallest effect of interest of a comparison of two measured sides, or of one side with 0."""
    return (
        0.0 if any(one.smallest == 0 and one.value != 0 for one in (left, right)) else left.smallest or right.smallest
    )


def _snap(end: float, to: float) -> float:
    """Returns the number `to` if the end differs from it by rounding alone, else the end."""
    return to if math.isclose(end, to, rel_tol=1e-12, abs_tol=1e-12) else end


def total(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    return _combine(operator.add, [left, right], left.half + right.half)


def difference(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    return _combine(operator.sub, [left, right], math.hypot(left.half, right.half), _smallest(left, right))


def _combine(
    compute: Callable[..., float], numbers: Sequence[ClaimNumber], half: float, smallest: float = 0.0
) -> ClaimNumber:
    """Returns `compute` of the numbers, with its value for each seed. An exact number is the same for every seed.

    If several numbers have values of the same seeds, an interval over the seeds replaces `half`.
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
    """Returns the absolute value. The values of the seeds are multiplied by the number's sign."""
    sign = math.copysign(1.0, number.value)
    return number._replace(value=abs(number.value), seeds=tuple((seed, sign * value) for seed, value in number.seeds))


def near(number: ClaimNumber, printed: ClaimNumber) -> Truth:
    """True if the number's interval holds the printed number."""
    if math.isinf(number.half):
        return Truth(None, number.half)
    away, freedom = abs(number.value - printed.value), len(number.seeds) - 1 if number.seeds else None
    halves = away / number.half if number.half else math.inf
    return Truth(away <= number.half + ROUNDING, half=number.half, halves=halves, freedom=freedom)


def product(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    if left.half and right.half:
        raise RuleFault("a product of two numbers with intervals")
    return _combine(operator.mul, [left, right], left.half * abs(right.value) + right.half * abs(left.value))


def quotient(left: ClaimNumber, right: ClaimNumber) -> ClaimNumber:
    if right.half:
        raise RuleFault("a division by a number with an interval")
    return _combine(operator.truediv, [left, right], left.half / abs(right.value))


def steps(compare: Callable[[float, float], bool]) -> Callable[[list[ClaimNumber]], Truth]:
    return lambda values: every(comparison(compare, after, before) for before, after in itertools.pairwise(values))


def mean(values: list[ClaimNumber]) -> ClaimNumber:
    half, smallest = (statistics.fmean(getattr(one, name) for one in values) for name in ("half", "smallest"))
    return _combine(lambda *numbers: statistics.fmean(numbers), values, half, smallest)


def share(truths: list[Truth]) -> Share:
    least, undecided = (sum(truth.holds is kind for truth in truths) / len(truths) for kind in (True, None))
    return Share(least + undecided / 2, undecided / 2)
