"""The papers' tables with our numbers beside theirs.

measured.yaml names for each table the metrics file of our numbers, and maps our names to the paper's. A table without
an entry was never run.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Literal

from annulus.errors import InputError, nearest
from annulus.settings import Section
from annulus_lab.config.file import checked
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing, Row
from annulus_lab.report.papers.published import HERE, ONE, PaperFigure, PaperRow, PublishedTable, label, load, read
from annulus_lab.report.papers.setting import conclusive_file, read_setting

Names = dict[str, str | float]


def load_tables() -> list[PublishedTable]:
    """Returns every table and stated number of the papers, in their order."""
    return [entry for entry in load() if isinstance(entry, PublishedTable)]


def load_figures() -> dict[str, PaperFigure]:
    """Returns every figure of the papers, by its id."""
    return {entry.id: entry for entry in load() if isinstance(entry, PaperFigure)}


@dataclass(frozen=True, kw_only=True)
class Pair(Section):
    """One of our rows (or fields) for one of the paper's, if the names differ."""

    optional = True
    theirs: Names
    here: Names = field(default_factory=dict)
    value: str | None = None  # instead of the table's
    std: str | None = None
    column: str | None = None


@dataclass(frozen=True, kw_only=True)
class MeasuredTable(Section):
    """Metrics file, columns and rows of our numbers of a table."""

    optional = True
    file: str
    value: str | None = None
    std: str | None = None
    interval: str | None = None  # instead of a std
    where: Names = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)  # our column: their setting; rows that agree in all keys match
    columns: dict[str, Names] | None = None  # our column: {their column: our value of it}
    column: str | None = None  # or: all our numbers are in this column of theirs
    also: dict[str, str] = field(default_factory=dict)  # a further column of theirs: our column, which has an interval
    rows: list[Pair] | None = None
    without: Names = field(default_factory=dict)  # our rows to skip: they repeat another row's run
    note: str | None = None  # printed below the table

    @property
    def bars(self) -> str:
        """Meaning of the ± column of our numbers."""
        return "half of the 95 % interval" if self.interval else "standard deviation over seeds"


@dataclass(frozen=True)
class ComparedRow:
    """One number of the papers with ours beside it; `here` None: not run. `bars` of the table explains `here_std`.

    `difference` is None also if data set or scale differ from the paper's: such numbers are not subtracted.
    """

    labels: dict[str, str]
    column: str | None
    paper: float | None
    paper_std: float | None
    here: float | None = None
    here_std: float | None = None
    difference: float | None = None
    setting: str | None = None


@dataclass(frozen=True)
class Comparison:
    """One table of the papers."""

    table: PublishedTable
    rows: list[ComparedRow]
    status: Literal["run", "not run", "broken"]
    command: str | None = None
    reason: str | None = None
    file: str | None = None
    row: Row | None = field(default=None, repr=False)  # one of our rows, for the setting
    bars: str = ""
    note: str | None = None  # about our numbers

    @property
    def coverage(self) -> str:
        """Text: the number of printed rows, and of their numbers, that have a number here."""
        if self.status != "run":
            return self.status
        printed = [row for row in self.rows if row.here is not None or row.paper is not None]
        here = [row for row in printed if row.here is not None]
        rows, ours = ({tuple(row.labels.items()) for row in some} for some in (self.rows, here))
        count = "all" if rows == ours else f"{len(ours)} of {len(rows)}"
        several = len(here) < len(printed) and any(row.column for row in self.rows)
        numbers = f", {len(here)} of {len(printed)} numbers" if several else ""
        return f"{count} rows run{numbers}"


@cache
def load_measured() -> dict[str, MeasuredTable]:
    """Reads measured.yaml: the source of our numbers of each table.

    Raises:
        InputError: for a table that the papers do not have, or an unknown or missing key.
    """
    by_table = {}
    known = {table.id for table in load_tables()}
    for name, entry in read(HERE / "measured.yaml").items():
        if name not in known:
            raise InputError(f"measured.yaml: the papers have no table {name!r}{nearest(name, known)}")
        by_table[name] = checked(entry, f"measured.yaml: {name}", MeasuredTable)
    return by_table


def compare(metrics: Metrics) -> list[Comparison]:
    """Returns every table of the papers with our numbers; a table that was never run has none."""
    measured = load_measured()
    return [compare_table(table, measured.get(table.id), metrics) for table in load_tables()]


def compare_table(table: PublishedTable, ours: MeasuredTable | None, metrics: Metrics) -> Comparison:
    """Returns one table of the papers with our numbers, or with the reason why it has none."""
    theirs = [
        ComparedRow(row.labels, None if column == ONE else column, value, std)
        for row in table.rows
        for column, (value, std) in row.numbers().items()
    ]
    if ours is None:
        return Comparison(table, theirs, "not run", reason="it has not run here")
    ours = replace(ours, file=conclusive_file(metrics, ours.file))
    try:
        by_place = cells(table, ours, metrics)
    except Missing as error:
        return Comparison(table, theirs, "not run", error.command, str(error), ours.file)
    except Broken as error:
        return Comparison(table, theirs, "broken", metrics.command(ours.file), str(error), ours.file)
    rows, some = [], None
    for row in theirs:
        here = by_place.get((tuple(sorted(row.labels.items())), row.column))
        if here is None:
            rows.append(row)
            continue
        value, std, some = here
        setting, difference = read_setting(metrics, ours.file, some), None
        if row.paper is not None and setting.matches_paper(table.pretrain):
            difference = round(value - row.paper, 12)  # 12: no 0.30000000000000004
        rows.append(ComparedRow(row.labels, row.column, row.paper, row.paper_std, value, std, difference, str(setting)))
    if some is None:
        reason = f"{metrics_path(ours.file)} holds none of its rows"
        return Comparison(table, rows, "not run", metrics.command(ours.file), reason, ours.file)
    return Comparison(table, rows, "run", metrics.command(ours.file), None, ours.file, some, ours.bars, ours.note)


Place = tuple[tuple[tuple[str, str], ...], str | None]


def cells(table: PublishedTable, ours: MeasuredTable, metrics: Metrics) -> dict[Place, tuple[float, float | None, Row]]:
    """Returns our number, its standard deviation or half of its interval, and its row, by place in the table.

    Raises:
        Missing: when our file is not there.
        Broken: when it lacks a column or field, or two of our rows match one place.
    """
    by_place: dict[Place, tuple[float, float | None, Row]] = {}

    def place(row: PaperRow, column: str | None, value: str, std: str | None, mine: Row) -> None:
        at = tuple(sorted(row.labels.items())), column
        if at in by_place:
            labels = ", ".join(f"{name} {text}" for name, text in at[0])
            raise metrics.fault(ours.file, f"two of its rows are {labels} of {table.id}")
        spread = mine.get(std or "", "")
        numbers = [mine[value], None if spread == "" else spread]  # one seed has no interval
        for name, number in zip((value, std), numbers, strict=True):
            if isinstance(number, str):
                raise metrics.fault(ours.file, f"{name} is {number!r}, no number, in a row for {table.id}")
        by_place[at] = (float(numbers[0]), numbers[1], mine)

    for pair in ours.rows or []:
        value, std = pair.value or ours.value, pair.std if pair.value else pair.std or ours.interval or ours.std
        needs = [name for name in (value, std) if name and name != ours.interval]
        if ours.file.endswith(".json"):
            mine = [{name: metrics.number(ours.file, name) for name in needs}]
        else:
            mine = metrics.matching(ours.file, ours.where | pair.here, needs)
        for row in table.rows:
            if agrees(row, pair.theirs):
                for own in mine:
                    place(row, pair.column or ours.column, value, std, own)
    if ours.keys:
        spread = ours.interval or ours.std
        needs = [
            name for name in (ours.value, ours.std, *ours.keys, *(ours.columns or {}), *ours.also.values()) if name
        ]
        for own in metrics.matching(ours.file, ours.where, needs):
            column = "" if ours.without and ours.without.items() <= own.items() else paper_column(own, ours)
            for row in table.rows:
                if column != "" and agrees(row, {their: own[mine] for mine, their in ours.keys.items()}):
                    place(row, column, ours.value, spread, own)
                    for theirs, value in ours.also.items():
                        if own[value] != "":  # empty in rows that ran before the column existed
                            stem, _, unit = value.rpartition("_")
                            place(row, theirs, value, f"{stem}_interval_{unit}", own)
    return by_place


def agrees(row: PaperRow, wanted: Mapping[str, str | float]) -> bool:
    """True if a printed row has this method and these settings; 1 equals 1.0."""
    labels = row.labels
    return all(labels.get(name) == label(value) for name, value in wanted.items())


def paper_column(own: Row, ours: MeasuredTable) -> str | None:
    """Returns the paper's column of one of our rows; "" if the paper does not have it."""
    for mine, names in (ours.columns or {}).items():
        return next((column for column, value in names.items() if value == own[mine]), "")
    return ours.column
