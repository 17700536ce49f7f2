"""A row of a paper's table as changes of the root's params.yaml."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from annulus.config.all_params import AllParams
from annulus.config.file import checked, read_tree
from annulus.config.resolved import IMAGES, RUN, SELECTORS, resolved
from annulus.errors import InputError, nearest
from annulus.studies.study import OwnStudy, Study
from annulus.studies.tables import RowsParams, row_at

STUDY = "algorithms"  # whose rows and tables the other studies take
SELECTED = ["seeds", *SELECTORS, *IMAGES[2:], *RUN]  # keys that the main line reads until its probes


@dataclass(frozen=True)
class Preset:
    """A method of a paper's table, and its row in a study.

    `row` is the row of the study that is this method, `settings` what it changes there, and `top1_percent` the linear
    probe's accuracy on CIFAR-10 that the paper prints; None: it prints none.
    """

    name: str  # TABLE/METHOD, in the paper's words
    row: str
    settings: Mapping[str, Any]
    top1_percent: float | None


class Presets:
    """The presets of one study at one scale.

    `find` gives one by its name, `params` its parameters, `line` the command that selects them.
    """

    def __init__(self, root: Path, study: str = STUDY, scale: str | None = None) -> None:
        """`root`: the checkout; `study`: one with the tables of `algorithms`; `scale`: in place of the study's own.

        Raises:
            InputError: when the study has no tables or no such scale, or a file cannot be read.
        """
        known = studies(root)
        if study not in known:
            raise InputError(
                f"{study!r} is no study with the papers' tables{nearest(study, known)} (studies: {', '.join(known)})"
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
        """The preset of this name.

        Raises:
            InputError: when there is none, with the nearest name.
        """
        if name not in self.all:
            method = name.rpartition("/")[2].lower()
            same = [known for known in self.all if known.partition("/")[2].lower() == method]
            meant = f"; did you mean {same[0]!r}?" if same else nearest(name, self.all)
            raise InputError(f"there is no preset {name!r}{meant} (`annulus presets` lists all {len(self.all)})")
        return self.all[name]

    def params(self, preset: Preset) -> AllParams:
        """All parameters of a preset, with the study's seeds, checked as params.yaml is.

        Raises:
            InputError: when params.yaml has no such key, or refuses a value.
        """
        variant = self.study.variant(preset.row, preset.settings, self.seeds[0])
        return variant.model_copy(update={"seeds": self.seeds})

    def changes(self, preset: Preset) -> dict[str, Any]:
        """The keys of params.yaml whose values the preset changes, and their new values.

        Sections that it does not select stay as they are: no stage reads them.
        """
        params, changes = self.params(preset), {}
        for name in SELECTED:
            wanted, held, path = resolved(params, [name]), self.tree, []
            while len(path) <= name.count("."):
                (key,) = wanted
                wanted, held, path = wanted[key], held[key], [*path, key]
            changes |= _changes(held, wanted, ".".join(path))
        return changes

    def line(self, preset: Preset) -> str:
        """The shell command that runs the main line with the preset's settings."""
        return " ".join(["dvc exp run", *overrides(self.changes(preset))])


def studies(root: Path) -> list[str]:
    """Names of the studies that have the papers' tables, `algorithms` first."""
    files = sorted(path for path in root.glob("stages/*/params.yaml") if path.parent.name != STUDY)
    names = [STUDY] if _file(root, STUDY).exists() else []
    return names + [path.parent.name for path in files if {"rows", "defaults"} <= read_tree(path).keys()]


def overrides(changes: Mapping[str, Any]) -> list[str]:
    """The options of `dvc exp run` that give keys of params.yaml these values, as words of a shell."""
    return [f"-S {shlex.quote(f'{key}={_value(value)}')}" for key, value in changes.items()]


def _file(root: Path, study: str) -> Path:
    return root / "stages" / study / "params.yaml"


def _presets(root: Path, study: Study) -> Iterator[Preset]:
    """The methods of the study's tables; a study of names takes rows and tables from `algorithms`."""
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


def _changes(held: Any, wanted: Any, name: str) -> dict[str, Any]:
    """The keys at and below `name` whose values differ; whole sections where their keys do."""
    if held == wanted:
        return {}
    if isinstance(held, Mapping) and isinstance(wanted, Mapping) and held.keys() == wanted.keys():
        inner = (_changes(held[key], value, f"{name}.{key}") for key, value in wanted.items())
        return {key: value for changes in inner for key, value in changes.items()}
    return {name: wanted}


def _value(value: Any) -> str:
    """A value in the grammar of `-S`."""
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
