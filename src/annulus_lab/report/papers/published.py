"""The papers' own tables and figures: published.yaml, read strictly."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from annotated_types import MinLen

from annulus.errors import InputError
from annulus.settings import Section
from annulus_lab.config.file import checked
from annulus_lab.config.params import kinds

HERE = Path(__file__).parent
# libyaml, if PyYAML was built with it: a safe loader too, and seven times as fast.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
Number = float | None  # None: not printed, or not legible
ONE = "value"  # the only column of a table whose rows have one number each


@dataclass(frozen=True, kw_only=True)
class PaperRow(Section):
    """A printed row: its method, its settings (all further keys), and its number or numbers."""

    optional = True
    method: str
    settings: dict[str, Any] = field(default_factory=dict)
    value: Number = None
    values: dict[str, Number] | None = None
    std: float | dict[str, float] | None = None
    printed_gap: float | dict[str, float] | None = None
    vs_crd: dict[str, Literal["up", "down"]] | None = None
    note: str | None = None
    source: Literal["cited"] | None = None
    paper_name: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, setting in self.settings.items():
            if not isinstance(setting, str | int | float | None):
                raise InputError(f"row {self.method!r}: {name}: {setting!r} is no setting; expected a number or text")

    @property
    def labels(self) -> dict[str, str]:
        """Method and settings, as text."""
        return {"method": self.method} | {name: label(value) for name, value in self.settings.items()}

    def numbers(self) -> dict[str, tuple[Number, Number]]:
        """Returns each column's number and its standard deviation."""
        values = {ONE: self.value} if self.values is None else self.values
        stds = self.std if isinstance(self.std, Mapping) else dict.fromkeys(values, self.std)
        return {column: (value, stds.get(column)) for column, value in values.items()}


@dataclass(frozen=True, kw_only=True)
class PublishedTable(Section):
    """A table, or numbers stated in the text."""

    optional = True
    id: str
    paper: str
    where: str
    kind: Literal["table", "text"]
    task: str
    metric: str
    unit: str
    note: str | None = None
    columns: dict[str, str | dict[str, str]] | None = None
    pretrain: dict[str, Any] | None = None
    eval: dict[str, Any] | None = None
    rows: Annotated[list[PaperRow], MinLen(1)]


@dataclass(frozen=True, kw_only=True)
class PaperFigure(Section):
    """A figure: its content, and the paper's finding."""

    optional = True
    id: str
    paper: str
    where: str
    kind: Literal["figure"]
    what: str
    finding: str
    x: str | None = None
    y: str | None = None
    note: str | None = None
    sweep: list[Any] | None = None
    pretrain: dict[str, Any] | None = None
    eval: dict[str, Any] | None = None
    numbers: list[float] | None = None


def label(value: str | float | int | bool | None) -> str:
    """Returns a setting as text: the same for 1.0 and 1."""
    return f"{float(value):.12g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def read(path: Path) -> Any:
    """Reads one of the report's own YAML files.

    Raises:
        InputError: when it cannot be read or is not YAML.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), LOADER)
    except (OSError, yaml.YAMLError) as error:
        raise InputError(f"cannot read {path.name}: {' '.join(str(error).split())}") from error


def _with_settings(row: Any, source: str) -> Any:
    """Moves the further keys of a row into `settings`."""
    if not isinstance(row, dict):
        return row
    if ("value" in row) == (row.get("values") is not None):
        raise InputError(f"{source}: row {row.get('method')!r} needs either value or values")
    own = kinds(PaperRow).keys() - {"settings"}
    settings = {name: value for name, value in row.items() if name not in own}
    return {name: value for name, value in row.items() if name in own} | {"settings": settings}


def entries(tree: Any) -> list[PublishedTable | PaperFigure]:
    """Returns the tables and figures of published.yaml.

    Raises:
        InputError: for an entry that lacks a field, has an unknown field or holds NaN, and for a repeated id.
    """
    if not isinstance(tree, list):
        raise InputError(f"published.yaml holds {type(tree).__name__}, expected a list of tables and figures")
    items: list[PublishedTable | PaperFigure] = []
    for i, entry in enumerate(tree):
        name = entry.get("id", f"entry {i}") if isinstance(entry, dict) else f"entry {i}"
        kind = PaperFigure if isinstance(entry, dict) and entry.get("kind") == "figure" else PublishedTable
        source = f"published.yaml: {name}"
        if isinstance(entry, dict) and isinstance(entry.get("rows"), list):
            entry = entry | {"rows": [_with_settings(row, source) for row in entry["rows"]]}
        items.append(checked(entry, source, kind))
        if any(other.id == name for other in items[:-1]):
            raise InputError(f"published.yaml: {name} comes twice")
    return items


@cache
def load() -> list[PublishedTable | PaperFigure]:
    return entries(read(HERE / "published.yaml"))
