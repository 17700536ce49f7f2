"""Tables of the report before they become HTML or Markdown: text to read, numbers to sort by. Also the papers'."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from annulus_lab.report.papers.comparison import ComparedRow, Comparison

NOT_RUN = "not run"
MINUS = "\N{MINUS SIGN}"
DECIMALS = {"percent": 2, "nats": 4}
UNITS = {"percent": "percent", "nats": "nats", "seconds": "s"}
WORDS = {"knn": "kNN", "nn1": "1-NN", "top1": "top-1", "top5": "top-5", "mlcpc": "ML-CPC", "cpc": "CPC", "moco": "MoCo",
         "simclr": "SimCLR", "pil": "PIL"}  # fmt: skip


@dataclass(frozen=True)
class Cell:
    """Text of a cell. `value`: its number, if it has one. `faint`: the text replaces a missing number."""

    text: str
    value: float | None = None
    faint: bool = False


@dataclass(frozen=True)
class Column:
    """A column's heading and unit. `group`: heading shared with neighbouring columns."""

    title: str
    unit: str = ""
    group: str = ""
    numeric: bool = True


@dataclass(frozen=True)
class Table:
    """Columns and rows; the caption names content and source."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]] = field(default_factory=list)

    @property
    def groups(self) -> list[tuple[str, int]]:
        """Headings above the columns, with the number of columns under each; empty if no column has a group."""
        runs: list[tuple[str, int]] = []
        for column in self.columns:
            if runs and runs[-1][0] == column.group:
                runs[-1] = column.group, runs[-1][1] + 1
            else:
                runs.append((column.group, 1))
        return runs if any(title for title, _ in runs) else []

    @property
    def starts(self) -> list[bool]:
        """True for each column that is the first of its group."""
        return [bool(self.columns[i].group) and self.columns[i].group != self.columns[i - 1].group
                for i in range(len(self.columns))]  # fmt: skip


def number(value: float, decimals: int | None = None) -> str:
    """Returns a number as text: with the decimals of its column, or with four digits; with the minus sign U+2212.

    0.000123 is 1.23e−4, 1234567 is 1,234,567.
    """
    if isinstance(value, int) or (value.is_integer() and abs(value) < 1e15 and not decimals):
        text = f"{int(value):,}"
    elif decimals is not None and (value == 0 or abs(value) >= 10**-decimals / 2):
        text = f"{value:,.{decimals}f}"
    elif value != 0 and not 1e-3 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        text = f"{mantissa}e{int(exponent)}"
    else:
        text = f"{value:,.{max(0, 3 - math.floor(math.log10(abs(value) or 1)))}f}"
    return text.replace("-", MINUS)


def number_cell(value: float | None, decimals: int | None = None, std: float | None = None, sign: bool = False) -> Cell:
    """Returns a cell with a number and its standard deviation; an empty cell for None."""
    if value is None:
        return Cell("")
    text = ("+" if sign and value > 0 else "") + number(value, decimals)
    if std is not None:
        text += f" ± {number(std, decimals)}"
    return Cell(text, value)


def decimal_places(values: Iterable[float | None], least: int = 0) -> int | None:
    """Returns the largest number of decimals of the values, at most four; None if a nonzero one is below 0.001."""
    present = [abs(value) for value in values if value]
    if present and min(present) < 1e-3:
        return None
    digits = [len(f"{value:.10f}".rstrip("0").partition(".")[2]) for value in present]
    return min(max([least, *digits]), 4)


def words_and_unit(name: str) -> tuple[str, str]:
    """Splits a name: ("kNN top-1", "percent") for `knn_top1_percent`."""
    *words, last = name.split("_")
    if words and last in UNITS:
        return " ".join(WORDS.get(word, word) for word in words), UNITS[last]
    return " ".join(WORDS.get(word, word) for word in [*words, last]), ""


def value_cell(name: str, value: object) -> Cell:
    """Returns the cell of a number with the decimals of its unit, or of text; an empty cell for None."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return number_cell(float(value), DECIMALS.get(words_and_unit(name)[1]))
    return Cell("" if value is None else str(value))


def values_table(caption: str, values: Mapping[str, object]) -> Table:
    """Returns a table of a metrics file's names and values, one a row."""
    rows = []
    for name, value in values.items():
        words, unit = words_and_unit(name)
        rows.append([Cell(words), value_cell(name, value), Cell(unit)])
    return Table(caption, [Column("quantity", numeric=False), Column("value"), Column("unit", numeric=False)], rows)


def paper_table(comparison: Comparison) -> Table:
    """Returns one of the papers' tables: settings; for each column the paper's number, ours, and the difference.

    The difference is there if data set and scale are the paper's. A table that did not run has the paper's numbers
    alone. Our setting is a column if it differs between rows.
    """
    table, unit = comparison.table, comparison.table.unit
    titles = ["paper"]
    if comparison.status == "run":
        titles += ["here", "difference"][: 2 if any(row.difference is not None for row in comparison.rows) else 1]
    labels = list(dict.fromkeys(name for row in comparison.rows for name in row.labels))
    names = list(dict.fromkeys(row.column for row in comparison.rows))
    settings = list(dict.fromkeys(row.setting for row in comparison.rows if row.setting))
    digits = decimal_places([row.paper for row in comparison.rows], least=1 if unit == "percent" else 0)
    columns = [Column(name.replace("_", " "), numeric=False) for name in labels]
    unit = "" if "," in unit else unit  # for several metrics the caption names each unit
    for name in names:
        heading = _heading(table.columns or {}, name)
        if len(titles) > 1:
            columns += [Column(title, unit, heading) for title in titles]
        else:
            columns.append(Column(heading or "paper", unit))
    if len(settings) > 1:
        columns.append(Column("setting", numeric=False))
    rows = []
    for key, cells in _by_labels(comparison.rows).items():
        line = [Cell(dict(key).get(name, "")) for name in labels]
        for name in names:
            line += _comparison_cells(cells.get(name), digits)[: len(titles)]
        if len(settings) > 1:
            line.append(Cell("; ".join(dict.fromkeys(cell.setting for cell in cells.values() if cell.setting))))
        rows.append(line)
    caption = f"{table.metric}, {table.unit}."
    if any(row.here_std is not None for row in comparison.rows):
        caption += f" ± here: {comparison.bars}."
    if len(settings) > 1:
        caption += " Settings here differ by row."
    if comparison.note:
        caption += f" {comparison.note}"
    return Table(caption, columns, rows)


def _heading(explained: Mapping[str, str | Mapping[str, str]], name: str | None) -> str:
    """Returns a paper's column in words; its name if they are too long."""
    words = explained.get(name or "", "")
    if not isinstance(words, str):
        words = ", ".join(f"{key} {value}" for key, value in words.items())
    return words if 0 < len(words) <= 44 else name or ""


def common_setting(comparison: Comparison) -> str:
    """Returns the setting of our numbers in a table; "several settings" if they differ."""
    settings = list(dict.fromkeys(row.setting for row in comparison.rows if row.setting))
    return settings[0] if len(settings) == 1 else "several settings" if settings else ""


def _by_labels(rows: Sequence[ComparedRow]) -> dict[tuple[tuple[str, str], ...], dict[str | None, ComparedRow]]:
    together: dict[tuple[tuple[str, str], ...], dict[str | None, ComparedRow]] = {}
    for row in rows:
        key = tuple(row.labels.items())
        while row.column in together.get(key, {}):  # printed twice under the same labels: two lines
            key = (*key, ("", ""))
        together.setdefault(key, {})[row.column] = row
    return together


def _comparison_cells(row: ComparedRow | None, digits: int | None) -> list[Cell]:
    """Returns the cells of the paper's number, ours and the difference."""
    if row is None:
        return [Cell("")] * 3
    paper = number_cell(row.paper, digits, row.paper_std) if row.paper is not None else Cell("not legible", faint=True)
    if row.here is None:
        return [paper, Cell(NOT_RUN, faint=True), Cell("")]
    return [paper, number_cell(row.here, digits, row.here_std), number_cell(row.difference, digits, sign=True)]
