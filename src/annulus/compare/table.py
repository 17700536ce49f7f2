"""Differences between two sides, with verdicts."""

from typing import NamedTuple

from annulus.compare.sides import Side
from annulus.errors import InputError
from annulus.evals.headlines import HEADLINES
from annulus.evals.intervals import COVERAGE, Interval, verdict
from annulus.pipeline.revision import WORKSPACE

OTHER_IMAGES = "other images"  # the verdict where the tasks differ


class Row(NamedTuple):
    """A number on both sides, its difference, and the verdict."""

    number: str
    base: float
    head: float
    difference: Interval
    verdict: str


class Comparison(NamedTuple):
    """Two sides, the parameters that differ and the differences of numbers; no rows where a side is stale.

    Rows are in pairs of one seed where one side has all seeds of the other; else of all seeds of each side.
    """

    base: Side
    head: Side
    changed: list[tuple[str, str, str]]  # key, in base, in head
    rows: list[Row]
    common: list[int]  # seeds that make pairs
    other_task: bool  # of other images, classes or both, so that no side is better

    @property
    def stale(self) -> list[str]:
        """Reasons for a table without rows: a sentence for each file that does not belong to a side's parameters and
        code."""
        sides = {"base": self.base, "head": self.head}
        return [
            f"{role}'s {clause}; run `dvc repro`" + (", commit dvc.lock and metrics/" if side.name != WORKSPACE else "")
            for role, side in reversed(sides.items())
            for clause in side.stale
        ]

    @property
    def by_chance(self) -> float:
        """Expected number of differences from random draws alone: 5 % of the numbers that can vary."""
        return (1 - COVERAGE) * sum(bool(row.difference.half) for row in self.rows)


def digits(number: str) -> int:
    """Decimals with which a number is shown."""
    return 2 if number.endswith("_percent") else 4


def compare(base: Side, head: Side) -> Comparison:
    """The numbers that both sides have, where both belong to their parameters.

    Raises:
        InputError: when one digest names test images of two counts.
    """
    rows, same_images = [], base.test_digest == head.test_digest
    # Pairs differ by less than runs of two seeds do, but a few of them tell less than many seeds without pairs.
    common = sorted({*base.seeds} & {*head.seeds})
    if common not in (sorted(base.seeds), sorted(head.seeds)):
        common = []
    other_task = base.classes != head.classes or any(
        base.params.get(key) != head.params.get(key) for key in ("dataset", *([] if same_images else [_root_of(head)]))
    )
    counts = {
        len(bits) for side in (base, head) for one in side.headlines.values() for bits in (one.right or {}).values()
    }
    if same_images and len(counts) > 1:
        raise InputError(
            f"{base.name} and {head.name} have {' and '.join(map(str, sorted(counts)))} test images of one digest"
        )
    names = [] if base.stale or head.stale else HEADLINES
    for name in (name for name in names if name in base.headlines and name in head.headlines):
        left, right = (side.headlines[name].of(common or side.seeds) for side in (base, head))
        difference, _ = right.minus(left, same_images)
        said = OTHER_IMAGES if other_task else _said(name, difference)
        rows.append(Row(name, left.interval().mean, right.interval().mean, difference, said))
    keys = sorted(base.params.keys() | head.params.keys())
    changed = [(key, *(_value(side, key) for side in (base, head))) for key in keys]
    return Comparison(base, head, [one for one in changed if one[1] != one[2]], rows, common, other_task)


def _root_of(side: Side) -> str:
    return f"datasets.{side.params.get('dataset')}.root"


def _said(name: str, difference: Interval) -> str:
    accuracy = HEADLINES[name].accuracy
    return verdict(difference, ("better", "worse") if accuracy else ("higher", "lower"))


def _value(side: Side, key: str) -> str:
    if key not in side.params:
        return "(absent)"
    text = "null" if side.params[key] is None else str(side.params[key])
    return (text if text.isprintable() else ascii(text))[:200]
