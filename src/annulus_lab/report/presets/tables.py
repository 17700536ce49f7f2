"""Every row of the papers' tables as commands: tables.yaml over published.yaml and the rows of `algorithms`."""

import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from annulus.errors import InputError, nearest
from annulus.settings import Section
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.file import checked
from annulus_lab.report.papers.comparison import agrees, load_tables
from annulus_lab.report.papers.published import PaperRow, PublishedTable, read
from annulus_lab.report.presets.preset import Presets, overrides, suggestion
from annulus_lab.studies.shared.rows_params import RowsParams, row_at
from annulus_lab.studies.shared.study import OwnStudy, Settings

BASE = "IR-nce"  # row of `algorithms` without changes
SCALE = "paper"
# Settings that the name of a row omits: other settings distinguish the rows.
UNNAMED = ("params_M", "head", "group")
OTHERS = ["encoders@uniform", "encoders@untrained"]  # detectors need these encoders and the main line's
IMAGENET_SEEDS, ENCODER_SEEDS = [0], [50]  # the papers have one run; seeds in studies of encoders begin at 50


@dataclass(frozen=True, kw_only=True)
class Command(Section):
    """Changes of the root's params.yaml and of a study's, and the study's stages to run."""

    optional = True
    sets: list[str] = field(default_factory=list)
    changes: Settings = field(default_factory=dict)
    study_changes: Settings = field(default_factory=dict)
    stages: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class RowEntry(Command):
    """Printed rows with the method and settings in `theirs`."""

    theirs: dict[str, str | float]
    row: str | None = None
    absent: str | None = None


@dataclass(frozen=True, kw_only=True)
class TableEntry(Command):
    """A table; the comments of tables.yaml explain the keys."""

    like: str | None = None
    columns: dict[str, Settings] = field(default_factory=dict)
    encoders: bool = False
    study: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    command: str | None = None
    rows: list[RowEntry] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Tables(Section):
    """The whole file; `sentences` has only anchors."""

    sets: dict[str, Settings]
    sentences: list[str]
    tables: dict[str, TableEntry]


@dataclass(frozen=True)
class TableRow:
    """A printed row: its commands, or the reason `absent` if it has none.

    `row` and `changes` select the main line; `row` None: the row needs no training of the main line.
    """

    name: str  # TABLE/ROW
    table: str
    absent: str | None = None
    row: str | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    encoders: bool = False
    study: str | None = None
    study_changes: Mapping[str, Any] = field(default_factory=dict)
    stages: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)  # of an iteration, by task
    command: str | None = None


@cache
def load_entries() -> Tables:
    """Reads tables.yaml.

    Raises:
        InputError: for an unknown key, or a table that the papers do not have.
    """
    content = checked(read(Path(__file__).with_name("tables.yaml")), "tables.yaml", Tables)
    known = {table.id for table in load_tables()}
    for name in content.tables:
        if name not in known:
            raise InputError(f"tables.yaml: the papers have no table {name!r}{nearest(name, known)}")
    return content


class TablePresets:
    """Rows of all tables at the papers' scale.

    `rows` has every row by its name. `find` returns one, `params` its main line, `lines` its commands.
    """

    def __init__(self, root: Path) -> None:
        """`root`: the checkout.

        Raises:
            InputError: when a parameter file or tables.yaml cannot be read, or names an unknown set, row or table.
        """
        self.root, self.main = root, Presets(root, scale=SCALE)
        self.algorithms = self.main.study.read(RowsParams)
        self.entries = load_entries()
        self.printed = {table.id: table for table in load_tables()}
        self._params: dict[str, AllParams] = {}

    @cached_property
    def rows(self) -> dict[str, TableRow]:
        rows = [row for table in self.printed.values() for row in self._rows(table)]
        return {row.name: row for row in rows}

    def find(self, name: str) -> TableRow:
        """Returns the row of this name.

        Raises:
            InputError: when there is none, with the nearest name, or when it has no command, with the reason.
        """
        if name not in self.rows:
            known = "`annulus presets` lists the tables"
            raise InputError(f"there is no preset {name!r}{suggestion(name, self.rows)} ({known})")
        if reason := self.rows[name].absent:
            raise InputError(f"{name} has no command: {reason}")
        return self.rows[name]

    def params(self, row: TableRow) -> AllParams:
        """Returns all parameters of a row's training of the main line, with all checks of params.yaml."""
        if row.name in self._params:
            return self._params[row.name]
        changes = row_at(SCALE, self.algorithms.rows[row.row or BASE]) | row.changes
        changed = self.main.study.variant(row.name, changes, self.main.seeds[0])
        seeds = self.main.seeds
        if row.encoders:
            seeds = ENCODER_SEEDS
        elif changed.dataset == "imagenet":
            seeds = IMAGENET_SEEDS
        return self._params.setdefault(row.name, changed.model_copy(update={"seeds": seeds}))

    def lines(self, row: TableRow) -> list[str]:
        """Returns the shell commands of a row, from the root."""
        if row.command:
            return [row.command]
        lines = []
        if row.row is not None:
            words = overrides(self.main.changes(self.params(row)))
            # A study trains encoders by the root's params.yaml; `check` sets and checks them.
            lines.append(" ".join(["dvc exp run", *words, *(["check"] if row.study == "transfer" else [])]))
        if row.encoders and row.study != "transfer":
            lines.append(in_study("transfer", {"seeds": ENCODER_SEEDS}, OTHERS))
        if row.study is not None:
            seeds = {"seeds": ENCODER_SEEDS} if row.encoders else {}
            lines.append(in_study(row.study, {"scale": SCALE} | seeds | row.study_changes, row.stages))
        return lines

    def _rows(self, table: PublishedTable) -> Iterator[TableRow]:
        entry = self.entries.tables.get(table.id, TableEntry(like=table.id))
        for printed in table.rows:
            own = _entry(entry, printed)
            name = f"{table.id}/{row_name(printed, table)}"
            if own.absent:
                yield TableRow(name, table.id, own.absent)
                continue
            row, changes = self._main_line(table.id, printed)
            table_row = TableRow(
                name,
                table.id,
                row=row,
                changes=changes,
                encoders=entry.encoders,
                study=entry.study,
                study_changes=entry.study_changes | own.study_changes,
                stages=tuple(own.stages or entry.stages),
                seconds=entry.seconds,
                command=entry.command,
            )
            yield table_row
            for column, more in entry.columns.items():
                yield TableRow(f"{name}, {column}", table.id, row=row, changes=table_row.changes | more)

    def _main_line(self, name: str, printed: PaperRow) -> tuple[str | None, Settings]:
        """Returns the row of `algorithms` and changes of a printed row; None if the main line is not trained."""
        entry = self.entries.tables.get(name, TableEntry(like=name))
        own = _entry(entry, printed)
        row, base = own.row, {}
        if row is None and entry.like in self.algorithms.tables:
            methods = self.algorithms.tables[entry.like].methods
            row = next((methods[label].row for label in _labels(printed) if label in methods), None)
        elif row is None and entry.like is not None:
            same = next((row for row in self.printed[entry.like].rows if row.method == printed.method), None)
            row, base = self._main_line(entry.like, same) if same else (None, {})
        elif row is None and (entry.command or (entry.study and not entry.encoders)):
            return None, {}
        elif row is None and own.theirs:
            row = BASE
        if row is None:
            raise InputError(f"tables.yaml: {name}: no entry for {printed.labels}; add one, or the reason as `absent`")
        changes = base
        for set_name in (*entry.sets, *own.sets):
            if set_name not in self.entries.sets:
                raise InputError(f"tables.yaml: {name}: no set {set_name!r}{nearest(set_name, self.entries.sets)}")
            changes = changes | self.entries.sets[set_name]
        return row, changes | entry.changes | own.changes


def in_study(study: str, changes: Mapping[str, Any], stages: Iterable[str]) -> str:
    """Returns the command that runs stages of a study in its folder."""
    words = [*overrides(changes), *map(shlex.quote, stages)]
    return f"(cd stages/{study} && {' '.join(['dvc exp run', *words])})"


def row_name(printed: PaperRow, table: PublishedTable) -> str:
    """Returns the method of a printed row, with the settings that distinguish it from the method's other rows."""
    same = [row for row in table.rows if row.method == printed.method]
    names = [
        name
        for name in printed.settings
        if name not in UNNAMED and len({str(row.settings.get(name)) for row in same}) > 1
    ]
    return ", ".join([printed.method, *(f"{name} {printed.labels[name]}" for name in names)])


def _entry(table: TableEntry, printed: PaperRow) -> RowEntry:
    """Returns the first entry that agrees with a printed row, or an empty entry."""
    return next((entry for entry in table.rows if agrees(printed, entry.theirs)), RowEntry(theirs={}))


def _labels(printed: PaperRow) -> Iterator[str]:
    """Yields possible names of a row in the study `algorithms`: its method, and the paper's own name."""
    yield printed.method
    yield (printed.paper_name or "").replace("{", "").replace("}", "").replace(r"\rightarrow", "to")


def load_study(root: Path, name: str) -> OwnStudy:
    """Returns a study at the papers' scale."""
    return OwnStudy(root / "stages" / name / "params.yaml", SCALE)
