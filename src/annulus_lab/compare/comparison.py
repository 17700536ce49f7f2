"""Differences between two sides, with verdicts."""

from typing import NamedTuple

from annulus.errors import InputError
from annulus.evals.families import ByChance, by_chance, survivors
from annulus.evals.headlines import HEADLINES
from annulus.evals.intervals import Interval, verdict
from annulus_lab.compare.sides import Side
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.pipeline.revision import WORKSPACE

OTHER_IMAGES = "other images"  # the verdict if the tasks differ


class ComparedNumber(NamedTuple):
    """Number on both sides, its difference, and the verdict."""

    number: str
    base: float
    head: float
    difference: Interval
    verdict: str
    survives: bool = False  # under Holm's correction for all numbers


class SideComparison(NamedTuple):
    """Two sides, their changed parameters and the differences of numbers; without rows if a side is stale.

    Rows compare pairs of one seed if one side has all seeds of the other. Otherwise they compare all seeds of each.
    """

    base: Side
    head: Side
    changed: list[tuple[str, str, str]]  # parameters that a side's selectors reach: key, in base, in head
    unchosen: int  # number of differing parameters in sections that neither side chooses
    rows: list[ComparedNumber]
    common: list[int]  # seeds that make pairs
    other_task: bool  # images or classes differ, so that neither side is better

    @property
    def stale(self) -> list[str]:
        """Sentences for a table without rows: a side's numbers do not belong to its parameters and code."""
        sides = {"base": self.base, "head": self.head}
        return [
            f"{role}'s {clause}; run `dvc repro`" + (", commit dvc.lock and metrics/" if side.name != WORKSPACE else "")
            for role, side in reversed(sides.items())
            for clause in side.stale
        ]

    @property
    def by_chance(self) -> ByChance:
        """Differences by random draws alone, of the numbers that can vary."""
        varying = [row.difference for row in self.rows if row.difference.half]
        return by_chance(len(varying), 1 + int(min((difference.freedom for difference in varying), default=0)))


def digits(number: str) -> int:
    """Decimals of a number in tables."""
    return 2 if number.endswith("_percent") else 4


def compare(base: Side, head: Side) -> SideComparison:
    """Compares the numbers that both sides have, if the numbers belong to the sides' parameters.

    Raises:
        InputError: when one digest belongs to two different numbers of test images.
    """
    rows, same_images = [], base.test_digest == head.test_digest
    # Pairs of a seed vary less than runs of two seeds. But a few pairs are less precise than many seeds without pairs.
    common = sorted({*base.seeds} & {*head.seeds})
    if common not in (sorted(base.seeds), sorted(head.seeds)):
        common = []
    other_task = base.classes != head.classes or any(
        base.params.get(key) != head.params.get(key) for key in ("dataset", *([] if same_images else [_root_key(head)]))
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
        left, right = (side.headlines[name].pick(common or side.seeds) for side in (base, head))
        difference, _ = right.minus(left, same_images)
        verdict_text = OTHER_IMAGES if other_task else _verdict(name, difference)
        rows.append(ComparedNumber(name, left.interval().mean, right.interval().mean, difference, verdict_text))
    survival = survivors([row.difference for row in rows])
    rows = [row._replace(survives=survives) for row, survives in zip(rows, survival, strict=True)]
    keys = sorted(base.params.keys() | head.params.keys())
    values = [(key, _value(base, key), _value(head, key)) for key in keys]
    differing = [row for row in values if row[1] != row[2]]
    changed = [row for row in differing if _is_chosen(row[0], base) or _is_chosen(row[0], head)]
    return SideComparison(base, head, changed, len(differing) - len(changed), rows, common, other_task)


def _is_chosen(key: str, side: Side) -> bool:
    """Returns True for a parameter in a chosen section, or outside of the sections that selectors choose from."""
    chosen = tuple(f"{section}.{side.params.get(selector)}." for selector, section in SELECTOR_SECTIONS.items())
    return key.partition(".")[0] not in SELECTOR_SECTIONS.values() or f"{key}.".startswith(chosen)


def _root_key(side: Side) -> str:
    return f"datasets.{side.params.get('dataset')}.root"


def _verdict(name: str, difference: Interval) -> str:
    accuracy = HEADLINES[name].accuracy
    return verdict(difference, ("better", "worse") if accuracy else ("higher", "lower"))


def _value(side: Side, key: str) -> str:
    if key not in side.params:
        return "(absent)"
    text = "null" if side.params[key] is None else str(side.params[key])
    return (text if text.isprintable() else ascii(text))[:200]
