"""A comparison as a metrics file: `report` begins with one, of the main line over uniform negatives."""

from annulus.compare.table import Comparison, Row, digits
from annulus.files.results import Number


def as_rows(comparison: Comparison) -> list[dict[str, Number]]:
    """A row for each number: both sides, the difference with half of its interval, and the seeds' own differences.

    Rounded to the digits of the number's unit. `interval` is empty where one seed shows none; without pairs the seeds
    have no differences of their own.
    """
    changed = "; ".join(f"{key}: {base} -> {head}" for key, base, head in comparison.changed)
    head = comparison.head
    right = [bits for headline in head.headlines.values() for bits in (headline.right or {}).values()]
    made = {
        "changed": changed or "nothing",
        "dataset": str(head.params.get("dataset", "")),
        "scale": str(head.params.get("scale", "")),
        "seeds": len(comparison.common or head.seeds),
        "test_images": max(map(len, right), default=0),
    }
    return [_numbers(comparison, row) | made | _of_seeds(comparison, row) for row in comparison.rows]


def _numbers(comparison: Comparison, row: Row) -> dict[str, Number]:
    half = row.difference.half
    return {
        "number": row.number,
        "base": _short(row, row.base),
        "head": _short(row, row.head),
        "difference": _short(row, row.difference.mean),
        "interval": "" if half is None else _short(row, half),
        "verdict": row.verdict,
    }


def _of_seeds(comparison: Comparison, row: Row) -> dict[str, Number]:
    base, head = (side.headlines[row.number].values for side in (comparison.base, comparison.head))
    return {f"seed{seed}": _short(row, head[seed] - base[seed]) for seed in comparison.common}


def _short(row: Row, value: float) -> float:
    return round(value, digits(row.number)) + 0.0  # no -0.0
