"""Files that are either whole or untouched, and metrics as small JSON files that diff well."""

import csv
import io
import json
import math
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.regular import read_text

Number = int | float | str
Metrics = Mapping[str, Number]

# What the protocols resolve: 0.01 % of accuracy, 1e-4 nats. More digits would only show noise in a diff.
DECIMALS = {"_percent": 2, "_nats": 4}
OTHER_DECIMALS = 6
MOST = 1e300  # a file's number is less: sums of squares stay finite numbers


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A path to write beside `path`, renamed over it at the end; on any failure the old file stays whole.

    The file has the mode that the umask gives. Compute the content before: a kill within leaves the path beside.

    Raises:
        InputError: when the disk is full or the folder cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
        aside.touch(exist_ok=False)
        temporary, mode = aside, aside.stat().st_mode
        yield temporary
        with temporary.open("rb+") as file:  # Windows flushes only a file that is open for writing
            os.fsync(file.fileno())
        temporary.chmod(mode)  # safetensors makes its files for their owner alone
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; "
            f"what stood there before is untouched. {_way_out(error)}, then run again"
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes completely or not at all.

    Raises:
        InputError: when the disk is full or the folder cannot be written.
    """
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of text as UTF-8, whatever the locale says; halves of characters as escapes."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def _way_out(error: OSError) -> str:
    if isinstance(error, IsADirectoryError | FileExistsError | NotADirectoryError):
        return "Move what is in the way"
    return "Free some space or fix the permissions"


def rounded(name: str, value: Number) -> Number:
    """A number to the digits that its protocol resolves, by the unit at the end of its name.

    Raises:
        ValueError: for NaN and infinities, which no metrics file holds.
    """
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}; metrics are finite numbers")
    digits = next((d for unit, d in DECIMALS.items() if name.endswith(unit)), OTHER_DECIMALS)
    return round(value, digits) + 0.0  # no -0.0


def all_rounded(metrics: Metrics) -> dict[str, Number]:
    """Metrics rounded as in files."""
    return {name: rounded(name, value) for name, value in metrics.items()}


def write_metrics(path: Path, metrics: Metrics) -> None:
    """Write one flat JSON file: sorted keys, rounded finite numbers, units at the end of the names."""
    _write_json(path, all_rounded(metrics))


def write_seeds(path: Path, seeds: Mapping[int, Metrics]) -> None:
    """Write the metrics of each seed into one JSON file, by seed."""
    _write_json(path, {str(seed): all_rounded(metrics) for seed, metrics in seeds.items()})


def read_metrics(path: Path) -> dict[str, Any]:
    """Read a metrics file: flat, or by seed.

    Raises:
        InputError: when the file is missing, or holds something else.
    """
    try:
        content = json.loads(read_text(path))
        if not isinstance(content, dict):
            raise ValueError(f"it holds {type(content).__name__}")
        for name, value in content.items():
            if isinstance(value, dict):  # of a seed
                _check_numbers(value)
            else:
                _check_numbers({name: value})
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is missing or not a metrics file ({error}); run `dvc repro`") from error
    return content


def _check_numbers(metrics: Mapping[str, Any]) -> None:
    """Raise ValueError for metrics that cannot be written."""
    for name, value in metrics.items():
        if value == "" and "_interval_" in name:  # that of one seed
            continue
        has_unit = name.endswith(tuple(DECIMALS))
        number = isinstance(value, int | float) and abs(value) < MOST  # also of an integer without end; not NaN
        if not number and (has_unit or not isinstance(value, str)):
            raise ValueError(f"{name} is {str(value)[:40]!r}, expected a number")


def write_table(path: Path, rows: Sequence[Metrics], columns: Sequence[str] = ()) -> None:
    """Write rows with the same keys as CSV, for DVC's plots; one row at least, or the columns that it would have."""
    if not (rows or columns):
        raise ValueError(f"{path} would have no row, and so no columns")
    text = io.StringIO()
    table = csv.DictWriter(text, fieldnames=list(rows[0]) if rows else columns, lineterminator="\n")
    table.writeheader()
    table.writerows(all_rounded(row) for row in rows)
    write_text(path, text.getvalue())


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n")
