"""Presets: rows of a paper's table as changes of the root's params.yaml."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annulus.errors import InputError, nearest
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.file import checked
from annulus_lab.config.resolved import IMAGES, RUN, SELECTORS, resolved
from annulus_lab.config.tree import read_tree
from annulus_lab.studies.shared.rows_params import RowsParams, row_at
from annulus_lab.studies.shared.study import OwnStudy, Study

STUDY = "algorithms"  # the other studies take its rows and tables
SELECTED = ["seeds", *SELECTORS, *IMAGES[2:], *RUN]  # keys that the main line reads up to its probes


@dataclass(frozen=True)
class Preset:
    """Method of a paper's table, and its row in a study.

    `row` names the study's row of this method, and `settings` are the row's changes. `top1_percent` is the paper's
    accuracy of the linear probe on CIFAR-10; None: the paper prints none.
    """

    name: str  # TABLE/METHOD, in the paper's words
    row: str
    settings: Mapping[str, Any]
    top1_percent: float | None


class Presets:
    """Presets of one study at one scale.

    `find` returns a preset by its name, `params` its parameters, `line` the command that selects them.
    """

    def __init__(self, root: Path, study: str = STUDY, scale: str | None = None) -> None:
        """`root`: the checkout; `study`: one with the tables of `algorithms`; `scale`: replaces the study's own.

        Raises:
            InputError: when the study lacks tables or the scale, or a file cannot be read.
        """
        known = studies(root)
        if study not in known:
            raise InputError(
                f"{study!r} is not a study with the papers' tables{nearest(study, known)} (studies: {', '.join(known)})"
            )
        self.name, self.tree = study, read_tree(root / "params.yaml")
        self.study = Study(root / "params.yaml", _file(root, study), scale)
        self.all = {preset.name: preset for preset in _presets(root, self.study)}

    @property
    def scale(self) -> str:
        return self.study.params.scale

    @property
    def seeds(self) -> list[int]:
        return self.study.params.seeds

    def find(self, name: str) -> Preset:
        """Returns the preset of this name.

        Raises:
            InputError: when there is none, with the nearest name.
        """
        if name not in self.all:
            raise InputError(
                f"there is no preset {name!r}{suggestion(name, self.all)} ({len(self.all)} of {self.name})"
            )
        return self.all[name]

    def params(self, preset: Preset) -> AllParams:
        """Returns all parameters of a preset with the study's seeds, with all checks of params.yaml.

        Raises:
            InputError: when params.yaml lacks a key, or refuses a value.
        """
        variant = self.study.variant(preset.row, preset.settings, self.seeds[0])
        return variant.model_copy(update={"seeds": self.seeds})

    def changes(self, params: AllParams) -> dict[str, Any]:
        """Returns the keys of params.yaml that these parameters change, and their new values.

        Sections that they do not select stay unchanged: no stage reads them.
        """
        changes: dict[str, Any] = {}
        for name in SELECTED:
            wanted, current, path = resolved(params, [name]), self.tree, []
            while len(path) <= name.count("."):
                (key,) = wanted
                wanted, current, path = wanted[key], current[key], [*path, key]
            changes |= _changes(current, wanted, ".".join(path))
        return changes

    def line(self, preset: Preset) -> str:
        """Returns the shell command that runs the main line with the preset's settings."""
        return " ".join(["dvc exp run", *overrides(self.changes(self.params(preset)))])


def suggestion(name: str, known: Iterable[str]) -> str:
    """Returns a clause with a preset of the same method in any table, or of the nearest name; empty without one."""
    method = name.rpartition("/")[2].lower()
    same = [other for other in known if other.partition("/")[2].lower() == method]
    return f"; did you mean {same[0]!r}?" if same else nearest(name, known)


def studies(root: Path) -> list[str]:
    """Returns the names of the studies with the papers' tables, `algorithms` first."""
    files = sorted(path for path in root.glob("stages/*/params.yaml") if path.parent.name != STUDY)
    names = [STUDY] if _file(root, STUDY).exists() else []
    return names + [path.parent.name for path in files if {"rows", "defaults"} <= read_tree(path).keys()]


def overrides(changes: Mapping[str, Any]) -> list[str]:
    """Returns the options of `dvc exp run` that set keys of params.yaml, as words of a shell."""
    return [f"-S {shlex.quote(f'{key}={_value(value)}')}" for key, value in changes.items()]


def _file(root: Path, study: str) -> Path:
    return root / "stages" / study / "params.yaml"


def _presets(root: Path, study: Study) -> Iterator[Preset]:
    """Yields the methods of the study's tables; if it only names rows and tables, they come from `algorithms`."""
    whole, rows, tables = study.content, study.content["rows"], study.content["tables"]
    if isinstance(rows, Sequence):
        whole = OwnStudy(_file(root, STUDY)).content
        rows = {row: whole["rows"][row] for row in rows}
        tables = {table: whole["tables"][table] for table in tables}
    content = whole | {"tables": tables, "pairs": {}}
    for title, table in checked(content, str(study.path), RowsParams).tables.items():
        for method, entry in table.methods.items():
            if entry.row in rows:
                settings = row_at(study.params.scale, rows[entry.row])
                yield Preset(f"{title}/{method}", entry.row, settings, entry.top1_percent)


def _changes(current: Any, wanted: Any, name: str) -> dict[str, Any]:
    """Returns the keys at and below `name` whose values differ, and sections whose keys differ, with new values."""
    if current == wanted:
        return {}
    if isinstance(current, Mapping) and isinstance(wanted, Mapping) and current.keys() == wanted.keys():
        inner = (_changes(current[key], value, f"{name}.{key}") for key, value in wanted.items())
        return {key: value for changes in inner for key, value in changes.items()}
    return {name: wanted}


def _value(value: Any) -> str:
    """Returns a value in the grammar of `-S`."""
    match value:
        case None:
            return "null"
        case bool():
            return str(value).lower()
        case list() | tuple():
            return f"[{','.join(map(_value, value))}]"
        case Mapping():
            return f"{{{','.join(f'{key}:{_value(inner)}' for key, inner in value.items())}}}"
        case _:
            return str(value)
