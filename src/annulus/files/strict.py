"""Strict parsing of metrics files: finite numbers and short text."""

import csv
import io
import json
from typing import Any

MOST = 1e100  # so that squares and their sums are finite


def parse_json(text: str) -> Any:
    """Parses JSON.

    Raises:
        ValueError: if it is not JSON, nests too deeply, or has NaN, an infinity or a number of thousands of digits.
    """
    try:
        return json.loads(text, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("it nests too deeply to be a metrics file") from error


def finite(value: Any, name: str) -> float:
    """Converts a number to float.

    Raises:
        ValueError: with the name, for another type (true and "1" too), NaN, or a number beyond MOST.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name} is {json.dumps(value)[:40]}, expected a number")
    if not abs(value) <= MOST:  # NaN too
        raise ValueError(f"{name} is {'a number beyond 1e100' if value == value else 'NaN'}")
    return float(value)


def parse_numbers(text: str) -> list[dict[str, float]]:
    """Parses the rows of a CSV of numbers; a row omits its empty cells.

    Raises:
        ValueError: if the text is not CSV, has no rows, rows of several lengths, or a cell that is not a finite number.
    """
    try:
        header, *lines = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
    except csv.Error as error:
        raise ValueError(f"not CSV: {error}") from error
    if not lines or len(set(header)) < len(header):
        raise ValueError("a table needs rows, and columns of different names")
    rows = []
    for i, line in enumerate(lines, 1):
        if len(line) != len(header):
            raise ValueError(f"row {i} has {len(line)} fields, the header {len(header)}")
        rows.append({name: _cell(cell, f"{name} in row {i}") for name, cell in zip(header, line, strict=True) if cell})
    return rows


def _cell(text: str, name: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"{name} is {text[:40]!r}, expected a number") from None
    return finite(value, name)


def _refuse(constant: str) -> float:
    raise ValueError(f"it holds {constant}; metrics are finite numbers")
