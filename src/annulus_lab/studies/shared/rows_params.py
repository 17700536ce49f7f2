"""Sections of a study that puts rows beside the papers' tables: rows, tables, further pairs."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Ge, Le, MinLen

from annulus.errors import abridge, nearest
from annulus.settings import Section, Steps
from annulus_lab.config.params import RowName
from annulus_lab.studies.shared.study import Settings, StudyParams

Percent = Annotated[float, Ge(0), Le(100)]


@dataclass(frozen=True, kw_only=True)
class PaperMethod(Section):
    """Line of a table: the row that is this method, and the paper's number; `base` replaces the table's base."""

    optional = True
    row: str
    top1_percent: Percent | None
    base: str | None = None


@dataclass(frozen=True, kw_only=True)
class PaperTable(Section):
    """Methods under the paper's names, and the base of their gains."""

    base: str
    methods: dict[str, PaperMethod]


@dataclass(frozen=True, kw_only=True)
class RowsParams(StudyParams):
    """params.yaml of a study of rows."""

    rows: Annotated[dict[RowName, Settings], MinLen(1)]
    tables: dict[str, PaperTable]
    pairs: dict[str, list[str]]
    closeness_views: Steps | None = None  # views whose closest rows each run measures
    oracle: str | None = None  # row whose gain is 100 percent in the shares of other rows

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, row in self.rows.items():
            _check_scales(row.get("scales", {}), self.scales, f"rows.{name}.scales")
        for title, table in self.tables.items():
            _known(table.base, table.methods, f"tables.{title}.base")
            for name, method in table.methods.items():
                _known(method.row, self.rows, f"tables.{title}.methods.{name}.row")
                if method.base is not None:
                    _known(method.base, table.methods, f"tables.{title}.methods.{name}.base")
        if self.oracle is not None:
            _known(self.oracle, self.rows, "oracle")
        for row, bases in self.pairs.items():
            for name in (row, *bases):
                _known(name, self.rows, f"pairs.{row}")


def row_at(scale: str, row: Settings) -> Settings:
    """Settings of a row, and after them its settings for this scale."""
    scaled = row.get("scales", {}).get(scale, {})
    return {key: value for key, value in row.items() if key != "scales" and key not in scaled} | scaled


def _check_scales(scales: Any, known: Iterable[str], where: str) -> None:
    if not isinstance(scales, dict) or not all(isinstance(changes, dict) for changes in scales.values()):
        raise ValueError(f"{where}: {abridge(scales)} refused; expected settings for each scale: {{demo: {{...}}}}")
    for scale in scales:
        if scale not in known:
            raise ValueError(f"{where}: {scale!r} is not a scale{nearest(scale, known)}")


def _known(name: str, known: Iterable[str], where: str) -> None:
    if name not in known:
        raise ValueError(f"{where}: no {name!r}{nearest(name, known)}")
