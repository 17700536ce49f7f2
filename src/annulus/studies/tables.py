"""Sections of a study that sets rows beside the papers' tables: the rows, the tables, further pairs."""

from collections.abc import Iterable
from typing import Annotated, Self

from pydantic import Field, model_validator

from annulus.config.params import Params, RowName
from annulus.errors import nearest
from annulus.studies.study import Settings, StudyParams

Percent = Annotated[float, Field(ge=0, le=100)]


class Method(Params):
    """A line of a table: the row that is this method, and the paper's number; base: another one than the table's."""

    row: str
    top1_percent: Percent | None
    base: str | None = None


class Table(Params):
    """Methods under the paper's names, and the base of their gains."""

    base: str
    methods: dict[str, Method]


class RowsParams(StudyParams):
    """params.yaml of a study of rows."""

    rows: Annotated[dict[RowName, Settings], Field(min_length=1)]
    tables: dict[str, Table]
    pairs: dict[str, list[str]]

    @model_validator(mode="after")
    def _of_rows(self) -> Self:
        for title, table in self.tables.items():
            _known(table.base, table.methods, f"tables.{title}.base")
            for name, method in table.methods.items():
                _known(method.row, self.rows, f"tables.{title}.methods.{name}.row")
                if method.base is not None:
                    _known(method.base, table.methods, f"tables.{title}.methods.{name}.base")
        for row, bases in self.pairs.items():
            for name in (row, *bases):
                _known(name, self.rows, f"pairs.{row}")
        return self


def _known(name: str, known: Iterable[str], where: str) -> None:
    if name not in known:
        raise ValueError(f"{where}: no {name!r}{nearest(name, known)}")
