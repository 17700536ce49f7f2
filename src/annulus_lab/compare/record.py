"""Comparison as a metrics file: `report` begins with one, of the main line over uniform negatives."""

from annulus.files.results import Number
from annulus_lab.compare.comparison import ComparedNumber, SideComparison, digits


def as_rows(comparison: SideComparison) -> list[dict[str, Number]]:
    """Row for each number: both sides, the difference with half of its interval, and the differences of single seeds.

    Values are rounded to the digits of the number's unit. `interval` is empty for a single seed. Without pairs the
    differences of single seeds are missing.
    """
    changed = "; ".join(f"{key}: {base} -> {head}" for key, base, head in comparison.changed)
    head = comparison.head
    right = [bits for headline in head.headlines.values() for bits in (headline.right or {}).values()]
    setting = {
        "changed": changed or "nothing",
        "dataset": str(head.params.get("dataset", "")),
        "scale": str(head.params.get("scale", "")),
        "seeds": len(comparison.common or head.seeds),
        "test_images": max(map(len, right), default=0),
    }
    return [_numbers(comparison, row) | setting | _seed_differences(comparison, row) for row in comparison.rows]


def _numbers(comparison: SideComparison, row: ComparedNumber) -> dict[str, Number]:
    half = row.difference.half
    return {
        "number": row.number,
        "base": _short(row, row.base),
        "head": _short(row, row.head),
        "difference": _short(row, row.difference.mean),
        "interval": "" if half is None else _short(row, half),
        "verdict": row.verdict,
    }


def _seed_differences(comparison: SideComparison, row: ComparedNumber) -> dict[str, Number]:
    base, head = (side.headlines[row.number].values for side in (comparison.base, comparison.head))
    return {f"seed{seed}": _short(row, head[seed] - base[seed]) for seed in comparison.common}


def _short(row: ComparedNumber, value: float) -> float:
    return round(value, digits(row.number)) + 0.0  # no -0.0
