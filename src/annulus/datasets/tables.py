"""Tables of paths and labels for `photos`: CSV, TSV, Parquet. Columns are known by their names."""

import csv
import io
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.datasets.folder import named
from annulus.datasets.found import SPLIT_OF, Found
from annulus.errors import InputError
from annulus.files.regular import read_text

log = logging.getLogger("annulus")

PATHS = ("path", "file", "file_name", "filename", "filepath", "file_path", "image_path", "image")
LABELS = ("label", "class", "category", "class_name", "target", "labels")
SPLITS = ("split", "set", "subset", "partition")


def from_text(path: Path, separator: str) -> Found:
    """The images that a CSV or TSV file names, with paths relative to its folder, or absolute.

    Raises:
        InputError: when it cannot be read, has no column of paths, or a line of another number of fields.
    """
    try:
        text = io.StringIO(read_text(path).lstrip("\ufeff"), newline="")
        table = csv.DictReader(text, delimiter=separator, strict=True)
        rows = []
        for row in table:
            if None in row or None in row.values():
                raise InputError(
                    f"{path}: line {table.line_num} has other than the {len(table.fieldnames)} fields of the header; "
                    "correct it, with quotes around a field that holds the separator"
                )
            rows.append(row)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path} is no table in UTF-8 ({error}); save it as CSV with a header") from error
    return from_rows(path, table.fieldnames or [], rows)


def from_rows(path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Found:
    """The images that a table's rows name.

    Raises:
        InputError: when it has no column of paths.
    """
    at, label, split = (column_of(columns, known) for known in (PATHS, LABELS, SPLITS))
    if at is None:
        raise InputError(
            f"{path} has the columns {', '.join(columns)[:200] or 'none'}, and none of paths; name one of them "
            f"{', '.join(PATHS[:4])} or {PATHS[-1]}, with commas between them (tabs in a .tsv)"
        )
    rows = list(rows)
    chosen = [row for row in rows if str(row[at] or "").strip()]
    if len(chosen) < len(rows):
        log.warning("WARNING: %s: %d rows without a %s are left out", path, len(rows) - len(chosen), at)
    if split is not None:
        name_unknown(path, split, [row[split] for row in chosen])
    return Found(
        "a table of paths",
        path.parent,
        tuple(str(row[at]) for row in chosen),
        tuple(class_name(row[label]) if label else None for row in chosen),
        tuple(split_name(row[split]) if split else None for row in chosen),
    )


def column_of(columns: Sequence[str], known: Sequence[str]) -> str | None:
    """The first known column of a table, in whatever case it is written."""
    lower = {column.lower().strip(): column for column in reversed(columns) if column}
    return next((lower[name] for name in known if name in lower), None)


def class_name(value: Any, names: Sequence[str] | None = None) -> str | None:
    """The class of a label, which may be its number among `names`."""
    if isinstance(value, int) and names is not None and value < len(names):
        return names[value] if value >= 0 else None
    return None if value is None else str(value).strip() or None


def name_unknown(path: Path, column: str, values: Iterable[Any]) -> None:
    """Warn of a column's words that name no split."""
    unknown = sorted({str(value) for value in values if value not in (None, "") and split_name(value) is None})
    if unknown:
        log.warning("WARNING: %s: column %s has words that name no split: %s", path, column, named(unknown))


def split_name(value: Any) -> str | None:
    """train, validation or test, by one of the usual words; else none."""
    return SPLIT_OF.get(str(value).lower().strip())
