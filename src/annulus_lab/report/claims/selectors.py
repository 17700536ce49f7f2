"""Selectors of a claim's numbers: columns of metrics files with intervals, fields, differences from a table.

    exact(file, column, by=..., **where)                a number without an interval; of a JSON file, a field
    estimate(file, column, interval, by=..., **where)   a number with half of its 95 % interval in the file
    spread(file, column, std, by=..., **where)          a mean over seeds with their standard deviation
    Differences(table, where)                           here minus paper, for every row of a table of the papers

`where` selects rows: a column holds the value, or one of the values. With `by` the selector reads a list, sorted by
these columns.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from annulus.evals.intervals import Interval
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.claims.truth import SMALLEST_EFFECT, ClaimNumber, Value
from annulus_lab.report.papers.comparison import ComparedRow, Comparison, load_measured
from annulus_lab.report.papers.metrics import Metrics, Missing, Row
from annulus_lab.report.papers.published import label
from annulus_lab.report.papers.setting import PaperSetting, conclusive_file, read_setting

Name = str | int | float
Where = Mapping[str, Name | Sequence[Name]]


@dataclass(frozen=True)
class MetricColumn:
    """Column of a CSV file, or field of a JSON file.

    `interval`: column with half of the 95 % interval. `std`: column with the standard deviation over seeds; the column
    `seeds` has their number. Without either the number is exact. A list of fewer than `least` rows is missing.
    `smallest`: smallest effect of interest of a percentage; 0: none.
    """

    file: str
    column: str
    where: Where
    by: Sequence[str] = ()
    interval: str | None = None
    std: str | None = None
    least: int = 1
    smallest: float = SMALLEST_EFFECT

    def read(self, metrics: Metrics, tables: Mapping[str, Comparison]) -> tuple[Value, PaperSetting]:
        """Returns the number (with `by` the list of numbers) and its setting.

        Raises:
            Missing: when the file or the rows are not there.
            Broken: when the file is damaged.
        """
        if (file := conclusive_file(metrics, self.file)) != self.file:
            return replace(self, file=file).read(metrics, tables)
        if self.file.endswith(".json"):
            return metrics.number(self.file, self.column), read_setting(metrics, self.file)
        value: Value = metrics.column(self.file, self.where, self.column, self.by)
        if isinstance(value, list) and len(value) < self.least:
            others = f"the other {self.least - len(value)} of {self.least} values"
            raise Missing(self.file, metrics.command(self.file), others)
        if (self.interval, self.std) != (None, None):
            half, smallest = self._halves(metrics), self.smallest if self.column.endswith("_percent") else 0.0
            seeds = [self._by_seed(metrics, row) for row in metrics.ordered(self.file, self.where, self.by)]
            if isinstance(value, list):
                value = [
                    ClaimNumber(number, interval, smallest, by_seed)
                    for number, interval, by_seed in zip(value, half, seeds, strict=True)
                ]
            else:
                value = ClaimNumber(value, half, smallest, seeds[0])
        return value, read_setting(metrics, self.file, *metrics.matching(self.file, self.where))

    def keys(self, metrics: Metrics, tables: Mapping[str, Comparison]) -> tuple[str, list[str]]:
        """Returns the names of the columns `by`, and their values in the row of each number.

        Raises:
            Missing, Broken: as `read`.
        """
        rows = metrics.ordered(self.file, self.where, self.by)
        return ", ".join(self.by), [", ".join(label(row[column]) for column in self.by) for row in rows]

    def _by_seed(self, metrics: Metrics, row: Row) -> tuple[tuple[int, float], ...]:
        """Returns each seed and its value, from columns such as linear_top1_seed70_percent; empty if there are none.

        A seed's gain is the row's accuracy minus its base's.
        """
        stem, _, unit = self.column.rpartition("_")
        values = self._seed_numbers(metrics, row, stem, unit)
        stem = stem.removesuffix("_gain")
        if values or not self.column.endswith(f"_gain_{unit}"):
            return tuple(sorted(values.items()))
        above, below = (
            self._seed_numbers(metrics, one, f"{stem}_top1", unit) for one in (row, self._base(metrics, row))
        )
        return tuple((seed, above[seed] - below[seed]) for seed in sorted(above.keys() & below.keys()))

    def _seed_numbers(self, metrics: Metrics, row: Row, stem: str, unit: str) -> dict[int, float]:
        matches = {name: re.fullmatch(rf"{stem}_seed(\d+)_{unit}", name) for name in row}
        values = {int(match[1]): row[name] for name, match in matches.items() if match}
        if strange := [value for value in values.values() if isinstance(value, str)]:
            raise metrics.fault(self.file, f"{self.column} of a seed is {strange[0]!r}, no number")
        return values

    def _base(self, metrics: Metrics, row: Row) -> Row:
        """Returns the base of a row of a grid. Of several bases it has the row's series, value or colour space."""
        verdict = self.column.replace("_gain_percent", "_verdict")
        bases = [one for one in metrics.rows(self.file) if one.get(verdict) == "base"]
        if row in bases:
            return row
        names = [name for name in ("series", "value", "space") if row.get(name)]
        alike = [one for one in bases if any(one.get(name) == row[name] for name in names)]
        base_rows = alike if len(bases) > 1 else bases
        return base_rows[0] if base_rows else {}

    def _halves(self, metrics: Metrics) -> float | list[float]:
        """Returns half of the 95 % interval of each number; infinite for one seed."""
        if self.interval is not None:
            return metrics.column(self.file, self.where, self.interval, self.by, empty=math.inf)
        stds = metrics.column(self.file, self.where, str(self.std), self.by, empty=math.inf)
        seeds = metrics.column(self.file, self.where, "seeds", self.by)
        return list(map(_over_seeds, stds, seeds)) if isinstance(stds, list) else _over_seeds(stds, seeds)


def _over_seeds(std: float, seeds: float) -> float:
    return math.inf if seeds <= 1 else Interval(0.0, std**2 / seeds, seeds - 1).half


@dataclass(frozen=True)
class Differences:
    """Our numbers minus the paper's, a list: the rows of one of the papers' tables with these labels."""

    table: str
    where: Where = field(default_factory=dict)
    column: ClassVar[str] = "difference"
    interval: ClassVar[None] = None

    @property
    def file(self) -> str:
        """Metrics file of our numbers, by measured.yaml."""
        return load_measured()[self.table].file

    def read(self, metrics: Metrics, tables: Mapping[str, Comparison]) -> tuple[list[float], PaperSetting]:
        """Returns the differences and their setting, on any data set and scale.

        Raises:
            Missing, Broken: as `MetricColumn.read`.
        """
        comparison = tables[self.table]
        file = str(comparison.file)
        if comparison.status == "broken":
            raise metrics.fault(file, (comparison.reason or "").removeprefix(f"{metrics_path(file)}: "))
        if comparison.row is None:
            raise Missing(file, comparison.command)
        values = [round(row.here - row.paper, 12) for row in self._rows(comparison)]
        return values, read_setting(metrics, file, comparison.row)

    def keys(self, metrics: Metrics, tables: Mapping[str, Comparison]) -> tuple[str, list[str]]:
        """Returns the names of the labels that differ, and their values in each row."""
        rows = self._rows(tables[self.table])
        labels = [row.labels | ({"column": row.column} if row.column else {}) for row in rows]
        differ = [name for name in labels[0] if len({row.get(name) for row in labels}) > 1]
        return ", ".join(differ), [", ".join(row.get(name, "") for name in differ) for row in labels]

    def _rows(self, comparison: Comparison) -> list[ComparedRow]:
        """Returns the selected rows with a printed number.

        Raises:
            Missing: when no row matches, or a row has no number here.
        """
        wanted = {name: label(value) for name, value in self.where.items()}
        rows = [
            row
            for row in comparison.rows
            if row.paper is not None and wanted.items() <= (row.labels | {"column": row.column or ""}).items()
        ]
        lacking = [row for row in rows if row.here is None]
        if lacking or not rows:
            labels = ", ".join(f"{name} {value}" for name, value in (lacking[0].labels if lacking else wanted).items())
            raise Missing(str(comparison.file), comparison.command, labels)
        return rows


Selector = MetricColumn | Differences


def exact(file: str, column: str, /, by: Sequence[str] = (), **where: Name | Sequence[Name]) -> MetricColumn:
    """Selects a number without an interval, such as a ceiling that is computed."""
    return MetricColumn(file, column, where, by)


def estimate(
    file: str,
    column: str,
    interval: str | None = None,
    /,
    by: Sequence[str] = (),
    least: int = 1,
    smallest: float = SMALLEST_EFFECT,
    **where: Name | Sequence[Name],
) -> MetricColumn:
    """Selects a number and half of its interval: nn1_gain_percent, nn1_gain_interval_percent."""
    words, _, unit = column.rpartition("_")
    return MetricColumn(
        file, column, where, by, interval=interval or f"{words}_interval_{unit}", least=least, smallest=smallest
    )


def spread(file: str, column: str, std: str, /, by: Sequence[str] = (), **where: Name | Sequence[Name]) -> MetricColumn:
    """Selects a mean over seeds; the columns `std` and `seeds` have the standard deviation and the count."""
    return MetricColumn(file, column, where, by, std=std)
