"""Tables of paths and labels for `photos`: CSV, TSV, Parquet. Columns are recognised by name."""

import ast
import csv
import io
import logging
import os
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from annulus.datasets.folder import composed, join_names
from annulus.datasets.listing import SPLIT_NAMES, ImageListing
from annulus.errors import InputError
from annulus.files.regular import read_text

log = logging.getLogger("annulus")

PATHS = ("path", "file", "file_name", "filename", "filepath", "file_path", "image_path", "image")
LABELS = ("label", "class", "category", "class_name", "target", "labels")
SPLITS = ("split", "set", "subset", "partition")
# Words that numpy, pandas, R, spreadsheets and data bases write for a missing value.
MISSING = {"nan", "NaN", "NaT", "<NA>", "None", "null", "NULL", "NA", "N/A", "#N/A", r"\N"}


def from_text(path: Path, separator: str) -> ImageListing:
    """Lists the images of a CSV or TSV file, with paths relative to its folder, or absolute.

    Raises:
        InputError: if it cannot be read, has no column of paths, or a line has another number of fields.
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
        raise InputError(f"{path} is not a table in UTF-8 ({error}); save it as CSV with a header") from error
    return from_rows(path, table.fieldnames or [], rows)


def from_rows(
    path: Path, columns: Sequence[str], rows: Iterable[Mapping[str, Any]], names: Sequence[str] | None = None
) -> ImageListing:
    """Lists the images of a table's rows, a file once. A label may be a number in `names`.

    Raises:
        InputError: if it has no column of paths, rows of one file have several splits, or a label is a structure.
    """
    at, label, split = (find_column(columns, known) for known in (PATHS, LABELS, SPLITS))
    if at is None:
        raise InputError(
            f"{path} has the columns {', '.join(columns)[:200] or 'none'}, and no column of paths; name one of them "
            f"{', '.join(PATHS[:4])} or {PATHS[-1]}, with commas between them (tabs in a .tsv)"
        )
    rows = list(rows)
    chosen = [row for row in rows if as_text(row[at]).strip()]
    if len(chosen) < len(rows):
        log.warning("WARNING: %s: %d rows without a %s are left out", path, len(rows) - len(chosen), at)
    if split is not None:
        name_unknown(path, split, [row[split] for row in chosen])
    listing = ImageListing(
        "a table of paths",
        path.parent,
        tuple(existing_name(path.parent, as_text(row[at])) for row in chosen),
        class_names(path, label, [row[label] if label else None for row in chosen], names),
        tuple(split_name(row[split]) if split else None for row in chosen),
    )
    return one_row_a_file(path, listing)


def one_row_a_file(path: Path, listing: ImageListing) -> ImageListing:
    """Merges the rows of one file. A file with several classes has none.

    Raises:
        InputError: if rows of one file have several splits.
    """
    places = defaultdict(list)
    for place, name in enumerate(listing.names):
        places[name].append(place)
    if len(places) == len(listing.names):
        return listing
    classes, splits = (
        {name: {values[place] for place in rows} for name, rows in places.items()}
        for values in (listing.classes, listing.splits)
    )
    if both := [name for name, values in splits.items() if len(values) > 1]:
        words = ", ".join(sorted(split or "none" for split in splits[both[0]]))
        raise InputError(
            f"{path}: rows of one file have several splits ({words}), for {len(both)} files: {join_names(both)}; give "
            "each file one split"
        )
    if several := [name for name, values in classes.items() if len(values - {None}) > 1]:
        log.warning(
            "WARNING: %s: %d files have rows of several classes, and count as images without a class: %s",
            *(path, len(several), join_names(several)),
        )
    log.info("%s: %d rows name a file again", path, len(listing.names) - len(places))
    single = [values - {None} if len(values - {None}) == 1 else {None} for values in classes.values()]
    return replace(
        listing,
        names=tuple(places),
        classes=tuple(value for (value,) in single),
        splits=tuple(value for (value,) in splits.values()),
    )


def existing_name(root: Path, text: str) -> str:
    r"""A path of a table, relative to `root` or absolute, in the form that exists on this disk.

    Windows writes `cat\1.png`, macOS decomposes letters with accents, and a browser writes file://. One file has one
    name: `./cat/../cat/1.png` is `cat/1.png`.
    """
    plain = (unquote(urlsplit(text).path) if text.startswith("file:") else text).strip().replace("\\", "/")
    forms = [text, plain, *(unicodedata.normalize(form, plain) for form in ("NFC", "NFD"))]
    if len({*forms}) > 1:
        plain = next((form for form in forms if os.path.lexists(root / form)), plain)
    return os.path.normpath(plain)


def find_column(columns: Sequence[str], known: Sequence[str]) -> str | None:
    """The first known column of a table, in any case of letters."""
    lower = {column.lower().strip(): column for column in reversed(columns) if column}
    return next((lower[name] for name in known if name in lower), None)


def class_names(
    path: Path, column: str | None, labels: Sequence[Any], names: Sequence[str] | None = None
) -> tuple[str | None, ...]:
    """Classes of the labels of a column; None for a missing label, and for a row with several.

    Raises:
        InputError: if a label is a structure.
    """
    parts = [_parts(label) for label in labels]
    if any(isinstance(part, Mapping | list) for items in parts for part in items):
        raise InputError(
            f"{path}: the column {column} holds structures; give it one text or number a row, or give it another name "
            "to train without classes"
        )
    if several := sum(len(items) > 1 for items in parts):
        log.warning(
            "WARNING: %s: %d rows have several labels in %s, and count as images without a class", path, several, column
        )
    if missing := sorted({text for label in labels if (text := as_text(label).strip()) in MISSING}):
        log.warning(
            "WARNING: %s: column %s has words of missing values, images without a class: %s",
            *(path, column, join_names(missing)),
        )
    return tuple(class_name(label, names) for label in labels)


def class_name(label: Any, names: Sequence[str] | None = None) -> str | None:
    """The class of a label, which may be a number in `names`; None if it is missing, or a list of several.

    A float that is whole is the integer's class: a missing value turns a column of integers into floats.
    """
    if not isinstance(label, str) or label.startswith("["):
        parts = _parts(label)
        if len(parts) != 1:
            return None
        (label,) = parts
    text = composed(as_text(label).strip())
    if whole := re.fullmatch(r"(-?\d+)\.0*", text):
        text = whole[1]
    if names is not None and not isinstance(label, str) and text.lstrip("-").isdecimal():
        number = int(text)
        if number < len(names):
            return composed(names[number]) if number >= 0 else None
    return None if text in MISSING else text or None


def _parts(label: Any) -> list[Any]:
    """The labels of a row: a list's different items, also of a list as text (`['cat']`), else the label itself."""
    if isinstance(label, str) and label.startswith("["):
        try:
            label = ast.literal_eval(label)
        except (ValueError, SyntaxError, MemoryError, RecursionError):  # a class of that name
            return [label]
    return list({as_text(part): part for part in label}.values()) if isinstance(label, list | tuple) else [label]


def as_text(value: Any) -> str:
    """A cell as text; empty for None. Some programs store text as bytes."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def name_unknown(path: Path, column: str, values: Iterable[Any]) -> None:
    """Warns about words of a column that are not splits."""
    unknown = sorted({text for text in map(as_text, values) if text not in {"", *MISSING} and split_name(text) is None})
    if unknown:
        log.warning("WARNING: %s: column %s has words that name no split: %s", path, column, join_names(unknown))


def split_name(value: Any) -> str | None:
    """Maps a word to train, validation or test, or to None."""
    return SPLIT_NAMES.get(as_text(value).lower().strip())
