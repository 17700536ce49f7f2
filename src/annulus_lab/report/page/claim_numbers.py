"""A claim's numbers and rule as text: single numbers in words, short lists as tables, names as labels."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from annulus_lab.report.claims.claim import Claim
from annulus_lab.report.claims.selectors import Differences, Selector
from annulus_lab.report.claims.verdicts import Verdict
from annulus_lab.report.papers.comparison import Comparison
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing
from annulus_lab.report.papers.tables import MINUS, Cell, Column, Table, decimal_places, number, words_and_unit

LONGEST = 8  # rows of a small table; the page prints the range of a longer list
UNITS = {"percent": "%", "nats": "nats", "pixels": "pixels"}
NAMES = {"ir": "IR", "iring": "IRing", "cmc": "CMC", "nce": "NCE", "cnce": "CNCE", "infonce": "InfoNCE", "eqco": "EqCo",
         "vince": "VINCE", "cpc": "CPC", "mlcpc": "ML-CPC", "crd": "CRD", "kd": "KD", "mocoring": "MoCoRing",
         "cmcring": "CMCRing", "rgb": "RGB", "xyz": "XYZ", "ydbdr": "YDbDr", "lab": "Lab", "mlp": "MLP head",
         "nn1": "1-NN", "top1": "top-1"}  # fmt: skip
SIGNS = {"<=": "≤", ">=": "≥", "~": "≈", "*": "\N{MULTIPLICATION SIGN}", "-": MINUS}


@dataclass(frozen=True)
class Numbers:
    """Single numbers as label and text; lists as tables."""

    single: list[tuple[str, str]]
    tables: list[Table]


def format_numbers(claim: Claim, verdict: Verdict, metrics: Metrics, tables: Mapping[str, Comparison]) -> Numbers:
    """Returns a claim's numbers as text. On other data or scale it omits differences to the paper's numbers."""
    single, groups = [], {}
    for name, selector in claim.values.items():
        value = verdict.numbers.get(name)
        if value is None:
            continue
        if isinstance(selector, Differences) and not verdict.own:
            continue
        half = verdict.numbers.get(f"{name}_interval")
        values = value if isinstance(value, list) else [value]
        texts = _text(values, half if isinstance(half, list) else [half] * len(values))
        if len(values) == 1 or len(values) > LONGEST:
            ends = dict.fromkeys(number(end, decimal_places(values)) for end in (min(values), max(values)))
            summary = texts[0] if len(values) == 1 else f"{len(values)} values, {' to '.join(ends)}"
            single.append((label(name), f"{summary} {_unit(selector)}".strip()))
        else:
            at = _keys(selector, metrics, tables, len(values))
            groups.setdefault(at, []).append((Column(label(name), _unit(selector)), texts))
    return Numbers(single, [_table(head, rows, columns) for (head, rows), columns in groups.items()])


def label(name: str) -> str:
    """Returns the label of a claim's name or a column: "IRing gain" for `iring_gain`, "at 0.4" for `at_0_4`."""
    name = re.sub(r"_(\d)_(\d)", r"_\1.\2", f"_{name}").removeprefix("_")
    name = re.sub(r"^k(\d+)", r"K = \1", re.sub(r"^p(\d+)", r"\1 %", name))
    parts = [re.sub(r"^0(\d+)$", r"0.\1", part) for part in name.split("_")]
    return " ".join(NAMES.get(part, part) for part in parts)


def rule_in_words(rule: str) -> str:
    """Returns a rule with the labels of its numbers and mathematical signs."""
    text = re.sub(r"[A-Za-z]\w*", lambda name: label(name[0]), rule)
    return re.sub(
        r"<=|>=|~|\*| - |(?<![\w)])-", lambda sign: sign[0].replace(sign[0].strip(), SIGNS[sign[0].strip()]), text
    )


def _keys(selector: Selector, metrics: Metrics, tables: Mapping[str, Comparison], count: int) -> tuple[str, tuple]:
    """Returns the heading and the rows' names of a list; places from 1 if its file does not name them."""
    try:
        head, rows = selector.keys(metrics, tables)
    except (Missing, Broken):
        head, rows = "", []
    rows = [row.replace("_", " ") for row in rows]
    return (label(head), tuple(rows)) if len(rows) == count else ("place", tuple(map(str, range(1, count + 1))))


def _text(values: Sequence[float], halves: Sequence[float | None]) -> list[str]:
    digits = decimal_places([*values, *filter(None, halves)])
    return [
        number(value, digits) + ("" if half is None else f" ± {number(half, digits)}")
        for value, half in zip(values, halves, strict=True)
    ]


def _table(head: str, rows: Sequence[str], columns: Sequence[tuple[Column, Sequence[str]]]) -> Table:
    cells = zip(*(texts for _, texts in columns), strict=True)
    lines = [[Cell(row), *map(Cell, texts)] for row, texts in zip(rows, cells, strict=True)]
    return Table("", [Column(head, numeric=False), *(column for column, _ in columns)], lines)


def _unit(selector: Selector) -> str:
    """Returns the unit of a column; a gain is in percentage points."""
    words, unit = words_and_unit(selector.column)
    return "points" if unit == "percent" and "gain" in words else UNITS.get(unit, "")
