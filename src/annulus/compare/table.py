"""Differences of two sides, and what each of them says."""

from typing import NamedTuple

from annulus.compare.sides import Side
from annulus.headlines import HEADLINES
from annulus.intervals import COVERAGE, Interval, verdict


class Row(NamedTuple):
    """A number on both sides, its difference, and the verdict."""

    number: str
    base: float
    head: float
    difference: Interval
    verdict: str


class Comparison(NamedTuple):
    """What changed between two sides, and what came of it."""

    base: Side
    head: Side
    changed: list[tuple[str, str, str]]  # key, in base, in head
    rows: list[Row]
    paired: bool

    @property
    def by_chance(self) -> float:
        """How many of the numbers would differ if nothing but the draws did: those that can vary, times 5 %."""
        return (1 - COVERAGE) * sum(bool(row.difference.half) for row in self.rows)


def compare(base: Side, head: Side) -> Comparison:
    """The numbers that both sides have."""
    rows, same_images = [], base.test_digest == head.test_digest
    for name in (name for name in HEADLINES if name in base.headlines and name in head.headlines):
        difference, _ = head.headlines[name].minus(base.headlines[name], same_images)
        values = (side.headlines[name].interval().mean for side in (base, head))
        rows.append(Row(name, *values, difference, _said(name, difference)))
    keys = sorted(base.params.keys() | head.params.keys())
    changed = [(key, *(_value(side, key) for side in (base, head))) for key in keys]
    return Comparison(base, head, [one for one in changed if one[1] != one[2]], rows, base.seeds == head.seeds)


def _said(name: str, difference: Interval) -> str:
    if difference.mean == 0 and difference.variance == 0:
        return "equal"
    accuracy = HEADLINES[name].accuracy
    return verdict(difference, ("better", "worse") if accuracy else ("higher", "lower"))


def _value(side: Side, key: str) -> str:
    if key not in side.params:
        return "(absent)"
    return "null" if side.params[key] is None else str(side.params[key])
