"""Atomic writing of files, and metrics as small JSON files that diff well."""

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

# The resolution of the protocols: 0.01 % of accuracy, 1e-4 nats. More digits would only add noise to a diff.
DECIMALS = {"_percent": 2, "_nats": 4}
OTHER_DECIMALS = 6
MOST = 1e300  # numbers in a file are smaller


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Context with a temporary path beside `path`, renamed to it at the end. After a failure the old file stays whole.

    The umask sets the file's mode. Compute the content before the context: a kill within leaves the temporary file.

    Raises:
        InputError: if the disk is full or the folder cannot be written.
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
        temporary.chmod(mode)  # safetensors lets only the owner read its files
        temporary.replace(path)
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror or error}; "
            f"an older file there is untouched. {_way_out(error)}, then run again"
        ) from error
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def check_folder(option: str, file: Path | None) -> None:
    """Raises InputError unless the folder of the file that an option of a command names exists."""
    if file is not None and not file.parent.is_dir():
        raise InputError(f"{option} {file}: there is no folder {file.parent}; make it, or name another file")


def write_bytes(path: Path, content: bytes) -> None:
    """Writes bytes, whole or not at all.

    Raises:
        InputError: if the disk is full or the folder cannot be written.
    """
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def write_text(path: Path, text: str) -> None:
    """`write_bytes` of text as UTF-8 in any locale. Lone surrogates become escapes."""
    write_bytes(path, text.encode(errors="backslashreplace"))


def _way_out(error: OSError) -> str:
    if isinstance(error, IsADirectoryError | FileExistsError | NotADirectoryError):
        return "Move the file or folder that is in the way"
    return "Free some space or fix the permissions"


def rounded(name: str, value: Number) -> Number:
    """Rounds a number to the digits of its unit, which ends its name.

    Raises:
        ValueError: for NaN and infinities.
    """
    if not isinstance(value, float):
        return value
    if not math.isfinite(value):
        raise ValueError(f"{name} is {value}; metrics are finite numbers")
    digits = next((d for unit, d in DECIMALS.items() if name.endswith(unit)), OTHER_DECIMALS)
    return round(value, digits) + 0.0  # no -0.0


def all_rounded(metrics: Metrics) -> dict[str, Number]:
    """Rounds metrics as in files."""
    return {name: rounded(name, value) for name, value in metrics.items()}


def write_metrics(path: Path, metrics: Metrics) -> None:
    """Writes one flat JSON file: sorted keys, rounded finite numbers, units at the end of the names."""
    _write_json(path, all_rounded(metrics))


def write_seeds(path: Path, seeds: Mapping[int | str, Metrics]) -> None:
    """Writes the metrics of all seeds, or of all targets, into one JSON file, by seed or target."""
    _write_json(path, {str(seed): all_rounded(metrics) for seed, metrics in seeds.items()})


def read_metrics(path: Path) -> dict[str, Any]:
    """Reads a metrics file, flat, by seed or by target.

    Raises:
        InputError: if the file is missing or has another content.
    """
    try:
        content = json.loads(read_text(path))
        if not isinstance(content, dict):
            raise ValueError(f"it holds {type(content).__name__}")
        for name, value in content.items():
            if isinstance(value, dict):  # metrics of a seed or target
                _check_numbers(value)
            else:
                _check_numbers({name: value})
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} is missing or not a metrics file ({error}); run `dvc repro`") from error
    return content


def _check_numbers(metrics: Mapping[str, Any]) -> None:
    """Raises ValueError for metrics that this package does not write."""
    for name, value in metrics.items():
        if value == "" and "_interval_" in name:  # one seed has no interval
            continue
        has_unit = name.endswith(tuple(DECIMALS))
        number = isinstance(value, int | float) and abs(value) < MOST  # huge integers and NaN fail
        if not number and (has_unit or not isinstance(value, str)):
            raise ValueError(f"{name} is {str(value)[:40]!r}, expected a number")


def write_table(path: Path, rows: Sequence[Metrics], columns: Sequence[str] = ()) -> None:
    """Writes rows as CSV, for DVC's plots; what a row lacks stays empty. Without rows, `columns` name the columns."""
    if not (rows or columns):
        raise ValueError(f"{path} would have no rows and no columns")
    text = io.StringIO()
    names = dict.fromkeys(name for row in rows for name in row) or columns
    table = csv.DictWriter(text, fieldnames=list(names), lineterminator="\n")
    table.writeheader()
    table.writerows(all_rounded(row) for row in rows)
    write_text(path, text.getvalue())


def _write_json(path: Path, content: Mapping[str, Any]) -> None:
    write_text(path, json.dumps(content, indent=2, sort_keys=True, allow_nan=False) + "\n")
