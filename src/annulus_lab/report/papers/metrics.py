"""The metrics files, read strictly. The error names the command of a missing file, the fault of a broken one."""

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.errors import nearest
from annulus.files.regular import read_text
from annulus_lab.pipeline.projects import metrics_path, repro

Cell = float | str
Row = dict[str, Cell]
Wanted = float | int | str | Sequence[float | int | str]

# Commands of the files that no study writes, by folder or the first part of the name.
COMMANDS = {"benchmarks": "make bench", **dict.fromkeys(("main", "summary.json", "summary.csv"), "make repro")}
COMMANDS["cifar10/pieces"] = "ANNULUS_COMPILE=graphs python stages cifar10/pieces ARCHIVE stages/cifar10/metrics/pieces"
COMMANDS["comparisons"] = (
    "dvc exp run -n uniform -S sampler=uniform && make restore && make compare BASE=uniform HEAD=HEAD "
    'ARGS="--csv metrics/comparisons/uniform.csv"'
)

# The largest committed table has 2,001 rows, and matplotlib would draw 200,000 for hours.
MOST_ROWS, MOST_BYTES = 5_000, 32 * 2**20
MOST = 10**300  # a float holds it

# Columns of names, which stay text: a class may be called `nan`, a series `16`.
NAMES = {"actual", "predicted", "series", "method", "table", "measure", "target", "cell"}


class Missing(Exception):
    """Missing metrics file, or missing rows of it: nothing has written them yet."""

    def __init__(self, name: str, command: str | None, rows: str = "") -> None:
        where = f"{metrics_path(name)} has no row with {rows}" if rows else f"{metrics_path(name)} is not there"
        super().__init__(where + (f"; `{command}` writes it" if command else ""))
        self.name, self.command = name, command


class Broken(Exception):
    """Damaged metrics file: unreadable, text in place of a number, a missing field."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{metrics_path(name)}: {reason}")
        self.name, self.reason = name, reason


class Metrics:
    """The metrics of a repository. `broken` collects the faults of broken files, each once."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.broken: list[Broken] = []
        self._rows: dict[str, list[Row]] = {}
        self._values: dict[str, dict[str, Any]] = {}

    def command(self, name: str) -> str | None:
        """Returns the command that writes the file `name`; None if nothing here writes it."""
        first, folder = name.split("/")[0], name.rpartition("/")[0]
        if folder in COMMANDS:
            return COMMANDS[folder]
        if (self.root / "stages" / first / "dvc.yaml").is_file():
            return repro(first)
        return COMMANDS.get(first)

    def fault(self, name: str, reason: str) -> Broken:
        """Returns the exception for a broken file and adds it to `broken`, for the page."""
        fault = next((b for b in self.broken if (b.name, b.reason) == (name, reason)), None)
        if fault is None:
            fault = Broken(name, reason)
            self.broken.append(fault)
        return fault

    def rows(self, name: str, most: int = MOST_ROWS) -> list[Row]:
        """Returns the rows of a CSV file, `most` at most; numbers as float, empty cells as "".

        Raises:
            Missing: when the file is not there.
            Broken: when it cannot be read, a row has too few or too many fields, or a number is not finite.
        """
        if name not in self._rows:
            self._rows[name] = self._table(name, self._text(name), most)
        return self._rows[name]

    def values(self, name: str) -> dict[str, Any]:
        """Returns the fields of a flat JSON file.

        Raises:
            Missing: when the file is not there.
            Broken: when it cannot be read, is not flat, or a number is not finite.
        """
        if name not in self._values:
            self._values[name] = self._flat(name, self._json(name, self._text(name)))
        return self._values[name]

    def by_seed(self, name: str) -> dict[str, dict[str, Any]]:
        """Returns the fields of a JSON file with a part for each seed, by seed.

        Raises:
            Missing: when the file is not there.
            Broken: when it cannot be read, has no seeds, a part is not flat, or a number is not finite.
        """
        content = self._json(name, self._text(name))
        if not content or not all(seed.isdecimal() and isinstance(part, dict) for seed, part in content.items()):
            raise self.fault(name, 'holds no numbers by seed, as {"0": {...}}')
        return {seed: self._flat(name, part) for seed, part in content.items()}

    def number(self, name: str, field: str) -> float:
        """Returns one number of a JSON file.

        Raises:
            Missing, Broken: as `values`; Broken also when the field is missing or holds text.
        """
        values = self.values(name)
        if field not in values:
            raise self.fault(name, f"has no field {field!r}{nearest(field, values)}")
        value = values[field]
        if isinstance(value, str | bool):
            raise self.fault(name, f"{field} is {value!r}, no number")
        return float(value)

    def matching(self, name: str, where: Mapping[str, Wanted], needs: Sequence[str] = ()) -> list[Row]:
        """Returns the rows of a CSV file whose columns have the values in `where`; a list accepts each of its values.

        Raises:
            Missing, Broken: as `rows`; Broken also when a column of `where` or of `needs` is missing.
        """
        rows = self.rows(name)
        for column in [*where, *needs]:
            if column not in rows[0]:
                raise self.fault(
                    name, f"has no column {column!r}{nearest(column, rows[0])}; it has {', '.join(rows[0])}"
                )
        return [row for row in rows if all(_matches(row[column], wanted) for column, wanted in where.items())]

    def ordered(
        self, name: str, where: Mapping[str, Wanted], by: Sequence[str], needs: Sequence[str] = ()
    ) -> list[Row]:
        """Returns the matching rows sorted by the columns `by`; text after numbers, such as `lowest` in alpha.

        Raises:
            Missing, Broken: as `matching`.
        """
        rows = self.matching(name, where, [*needs, *by])
        return sorted(rows, key=lambda row: [(isinstance(row[key], str), row[key]) for key in by])

    def column(
        self, name: str, where: Mapping[str, Wanted], column: str, by: Sequence[str], empty: float | None = None
    ) -> float | list[float]:
        """Returns the numbers of a column in the rows that `where` selects, sorted by `by`; without `by`, one number.

        `empty` replaces an empty cell.

        Raises:
            Missing: when the file is not there or has no such row.
            Broken: as `matching`; also when a cell holds text, or several rows match without `by`.
        """
        rows = self.ordered(name, where, by, [column])
        conditions = ", ".join(f"{key} {_in_words(wanted)}" for key, wanted in where.items())
        if not rows:
            raise Missing(name, self.command(name), conditions)
        for row in rows:
            if isinstance(row[column], str) and (row[column] or empty is None):
                raise self.fault(name, f"{column} is {row[column]!r}, no number, in the row with {conditions or row}")
        if not by and len(rows) > 1:
            raise self.fault(name, f"{len(rows)} rows with {conditions}, expected one")
        numbers = [empty if row[column] == "" else float(row[column]) for row in rows]
        return numbers if by else numbers[0]

    def _text(self, name: str) -> str:
        path = self.root / metrics_path(name)
        try:
            if path.stat().st_size > MOST_BYTES:
                raise self.fault(name, f"has {path.stat().st_size >> 20} MB, at most {MOST_BYTES >> 20} are read")
            return read_text(path)
        except FileNotFoundError as error:
            raise Missing(name, self.command(name)) from error
        except OSError as error:
            raise self.fault(name, f"cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise self.fault(name, "is not text in UTF-8") from error

    def _table(self, name: str, text: str, most: int) -> list[Row]:
        try:
            header, *lines = list(csv.reader(io.StringIO(text, newline=""), strict=True)) or [[]]
        except csv.Error as error:
            raise self.fault(name, f"is not CSV: {error}") from error
        if not lines:
            raise self.fault(name, "holds no rows")
        if len(lines) > most:
            raise self.fault(name, f"holds {len(lines):,} rows, at most {most:,} are shown")
        if len(set(header)) < len(header):
            raise self.fault(name, "names a column twice")
        rows = []
        for i, line in enumerate(lines, 1):
            if len(line) != len(header):
                raise self.fault(name, f"row {i} has {len(line)} fields, the header {len(header)}")
            rows.append({column: self._cell(name, i, column, text) for column, text in zip(header, line, strict=True)})
        return rows

    def _cell(self, name: str, i: int, column: str, text: str) -> Cell:
        if column in NAMES:
            return text
        try:
            value = float(text)
        except ValueError:
            return text
        if not math.isfinite(value):
            raise self.fault(name, f"row {i}: {column} is {text}")
        return value

    def _json(self, name: str, text: str) -> dict[str, Any]:
        try:
            values = json.loads(text)
        except (ValueError, RecursionError) as error:  # ValueError: of numbers of thousands of digits too
            raise self.fault(name, f"is not JSON: {error}") from error
        if not isinstance(values, dict):
            raise self.fault(name, f"holds {type(values).__name__}, expected names and numbers")
        return values

    def _flat(self, name: str, values: dict[str, Any]) -> dict[str, Any]:
        for field, value in values.items():
            if not isinstance(value, int | float | str):
                raise self.fault(name, f"{field} is {json.dumps(value)[:40]}, expected a number or text")
            if not all(_is_unicode(text) for text in (field, value) if isinstance(text, str)):
                raise self.fault(name, f"{field!a} or its value holds half of a character, which no file can")
            if isinstance(value, int) and abs(value) > MOST:
                raise self.fault(name, f"{field} is a number beyond {MOST:.0e}")
            if isinstance(value, float) and not math.isfinite(value):
                raise self.fault(name, f"{field} is {value}")
        return values


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _matches(cell: Cell, wanted: Wanted) -> bool:
    if isinstance(wanted, str | int | float):
        if isinstance(cell, str) or isinstance(wanted, str):
            return cell == wanted
        return math.isclose(cell, wanted, rel_tol=1e-6)
    return any(_matches(cell, one) for one in wanted)


def _in_words(wanted: Wanted) -> str:
    if isinstance(wanted, str | int | float):
        return wanted if isinstance(wanted, str) else f"{wanted:g}"
    return " or ".join(_in_words(one) for one in wanted)
