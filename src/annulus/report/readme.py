"""Writes the tables of README.md and metrics/RESULTS.md from the files in metrics/: `make tables`.

A table follows its instruction, a comment in the Markdown with a CSV file under metrics/, the columns with their
headings, and the rows to show.

    <!-- table algorithms/table.csv: method, linear = here_percent, verdict; table = mutualinfo.table1 -->

A number is followed by the half-width of its 95 % interval, where the file has one; a gain has its sign. Several
values of one column are separated by `|`; without a condition all rows are shown.
"""

import argparse
import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from annulus.errors import InputError
from annulus.files.results import atomic_write

INSTRUCTION = re.compile(r"<!-- table (?P<file>\S+): (?P<columns>[^;\n]+?)(?:; (?P<rows>[^\n]+?))? -->\n(?:\|.*\n)*")
READMES = ["README.md", "metrics/RESULTS.md"]
DIGITS = {"percent": 1, "nats": 2, "pixels": 1, "norm": 2}
SMALL = 0.1  # a column of smaller numbers gets two more digits

Row = Mapping[str, str]


def main(argv: Sequence[str] | None = None) -> None:
    """Rewrite the tables. A user's mistake gives one sentence and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m annulus.report.readme", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    root = parser.parse_args(argv).root
    try:
        for path in (root / name for name in READMES):
            text = path.read_text(encoding="utf-8")
            made = with_tables(text, root / "metrics")
            if made != text:
                with atomic_write(path) as temporary:
                    temporary.write_text(made, encoding="utf-8")
            print(f"{path}: {len(INSTRUCTION.findall(made))} tables{'' if made != text else ', as they were'}")
    except (InputError, OSError) as error:
        raise SystemExit(f"ERROR: {error}") from None


def with_tables(text: str, metrics: Path) -> str:
    """Returns the Markdown with each table made from its file.

    Raises:
        InputError: when an instruction names a missing file, column or row.
    """
    return INSTRUCTION.sub(lambda match: _table(match, metrics), text)


def _table(match: re.Match[str], metrics: Path) -> str:
    instruction = match.group(0).split("\n", 1)[0]
    try:
        with (metrics / match["file"]).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{instruction}: metrics/{match['file']}: {error.strerror}; run its study first") from error
    pairs = [column.partition("=")[::2] for column in match["columns"].split(",")]
    columns = {head.strip(): (column or head).strip() for head, column in pairs}
    conditions = dict(_condition(part) for part in match["rows"].split(",")) if match["rows"] else {}
    known = set(rows[0]) if rows else set()
    for name in [*columns.values(), *conditions]:
        if name not in known:
            raise InputError(f"{instruction}: the file has no column {name!r} (columns: {', '.join(sorted(known))})")
    chosen = [row for row in rows if all(row[name] in values for name, values in conditions.items())]
    if not chosen:
        raise InputError(f"{instruction}: no row is left; mend the conditions")
    lines = [list(columns), ["---"] * len(columns)]
    cells = [_cells(chosen, column) for column in columns.values()]
    lines += [list(row) for row in zip(*cells, strict=True)]
    return "".join([f"{instruction}\n", *(f"| {' | '.join(line)} |\n" for line in lines)])


def _condition(text: str) -> tuple[str, list[str]]:
    name, _, values = text.partition("=")
    return name.strip(), [value.strip() for value in values.split("|")]


def _cells(rows: Sequence[Row], column: str) -> list[str]:
    """Formats a column's numbers with their intervals; a base's gain over itself, 0 by definition, is left empty."""
    stem, _, unit = column.rpartition("_")
    if unit not in DIGITS:
        return [row[column].replace("|", "\\|") for row in rows]
    numbers = [(row[column], row.get(f"{stem}_interval_{unit}") or "") for row in rows]
    words = [[word for name, word in row.items() if name.endswith("verdict")] for row in rows]
    small = all(abs(float(value or 0)) < SMALL for value, _ in numbers)
    form = f"{'+' if 'gain' in stem or stem.startswith('over_') else ''}.{DIGITS[unit] + 2 * small}f"
    cells = []
    for (value, half), verdicts in zip(numbers, words, strict=True):
        is_base = "base" in verdicts or not verdicts
        if value == "" or (is_base and form.startswith("+") and float(value) == 0 == float(half or 0)):
            cells.append("")
            continue
        cells.append(f"{float(value):{form}}" + (f" ± {float(half):{form.lstrip('+')}}" if half else ""))
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])
