"""Where the numbers of a claim are: columns of metrics files and their intervals, fields, columns of tables."""

import math
from collections.abc import Mapping
from typing import Self

from pydantic import Field, model_validator

from annulus.config.params import Params
from annulus.evals.intervals import Interval
from annulus.report.metrics import Metrics, Missing
from annulus.report.papers import ComparedRow, Comparison
from annulus.report.published import label
from annulus.report.setting import Setting, read_setting
from annulus.report.truth import Estimate, Value

Name = str | float


class Selector(Params):
    """Where a number is: a column of a metrics file, a field of a JSON file, or a column of a compared table.

    `interval` is the column with half of its 95 % interval, or `std` the one with the standard deviation of the values
    whose mean it is, `count` many: a number or a column. Without either it is taken for exact.
    """

    file: str | None = None
    table: str | None = None
    column: str
    interval: str | None = None
    std: str | None = None
    count: int | str = "seeds"
    where: dict[str, Name | list[Name]] = Field(default_factory=dict)
    by: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _of_one_kind(self) -> Self:
        if (self.file is None) == (self.table is None):
            raise ValueError("needs either file or table")
        if self.table is not None and self.column not in ("paper", "paper_std", "here", "here_std", "difference"):
            raise ValueError(f"column {self.column!r} is none of a table")
        if self.interval is not None and self.std is not None:
            raise ValueError("has interval or std, not both")
        if (self.interval or self.std) is not None and not str(self.file).endswith(".csv"):
            raise ValueError("an interval is a column of a CSV file")
        return self


def select(selector: Selector, metrics: Metrics, tables: Mapping[str, Comparison]) -> tuple[Value, Setting]:
    """The number or numbers that a selector names, and how they were made.

    Raises:
        Missing: when nothing has written them.
        Broken: when their file cannot be right.
    """
    if selector.table is not None:
        return _of_table(selector, tables[selector.table], metrics)
    name = str(selector.file)
    if name.endswith(".json"):
        return metrics.number(name, selector.column), read_setting(metrics, name)
    value: Value = metrics.column(name, selector.where, selector.column, selector.by)
    if selector.interval is not None or selector.std is not None:
        half = _halves(selector, metrics, name)
        listed = isinstance(value, list)
        value = list(map(Estimate, value, half)) if listed else Estimate(value, half)
    return value, read_setting(metrics, name, metrics.matching(name, selector.where)[0])


def keys(selector: Selector, metrics: Metrics, tables: Mapping[str, Comparison]) -> tuple[str, list[str]]:
    """What tells the numbers of a list apart: the names of the columns, and of each number their values.

    Raises:
        Missing, Broken: as `select`.
    """
    if selector.table is not None:
        labels = [row.labels | ({"column": row.column} if row.column else {})
                  for row in _rows_of_table(selector, tables[selector.table])]  # fmt: skip
        differ = [name for name in labels[0] if len({row.get(name) for row in labels}) > 1]
        return ", ".join(differ), [", ".join(row.get(name, "") for name in differ) for row in labels]
    rows = metrics.ordered(str(selector.file), selector.where, selector.by)
    return ", ".join(selector.by), [", ".join(label(row[column]) for column in selector.by) for row in rows]


def _halves(selector: Selector, metrics: Metrics, name: str) -> float | list[float]:
    """Half of the 95 % interval of each number; infinite where one seed shows none."""
    if selector.std is None:
        return metrics.column(name, selector.where, str(selector.interval), selector.by, empty=math.inf)

    def half(std: float, count: int | float) -> float:
        return math.inf if count == 1 else Interval(0.0, std**2 / count, count - 1).half

    stds, count = metrics.column(name, selector.where, selector.std, selector.by), selector.count
    counts = metrics.column(name, selector.where, count, selector.by) if isinstance(count, str) else count
    if not isinstance(stds, list):
        return half(stds, counts)
    return list(map(half, stds, counts if isinstance(counts, list) else [counts] * len(stds)))


def _of_table(selector: Selector, comparison: Comparison, metrics: Metrics) -> tuple[list[float], Setting]:
    file = str(comparison.file)
    if comparison.status == "broken":
        raise metrics.fault(file, (comparison.reason or "").removeprefix(f"metrics/{file}: "))
    if comparison.row is None:
        raise Missing(file, comparison.command)
    rows = _rows_of_table(selector, comparison)
    # A claim says by itself at which scale a difference decides; the tables print none of another scale.
    values = [
        round(row.here - row.paper, 12) if selector.column == "difference" else getattr(row, selector.column)
        for row in rows
    ]
    if None in values:
        raise metrics.fault(file, f"{selector.table} has no {selector.column} in the row with {rows[0].labels}")
    return values, read_setting(metrics, file, comparison.row)


def _rows_of_table(selector: Selector, comparison: Comparison) -> list[ComparedRow]:
    """The rows that a selector names, all of which have a number here.

    Raises:
        Missing: when one has none, or there is none.
    """
    wanted = {name: label(value) for name, value in selector.where.items() if not isinstance(value, list)}
    rows = [
        row
        for row in comparison.rows
        if row.paper is not None and wanted.items() <= (row.labels | {"column": row.column or ""}).items()
    ]
    lacking = [row for row in rows if row.here is None]
    if lacking or not rows:
        told = ", ".join(f"{name} {value}" for name, value in (lacking[0].labels if lacking else wanted).items())
        raise Missing(str(comparison.file), comparison.command, told)
    return rows
