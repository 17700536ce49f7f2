"""Writes the numbers of Markdown files from metrics files: `make tables`.

The files are README.md, metrics/RESULTS.md, metrics/MAIN.md, metrics/benchmarks/README.md and each study's README.md.
A table follows its instruction, a comment with a CSV file such as `law/moco.csv`, the columns with their headings, and
the rows to show. A number stands between two comments; its conditions leave one row.

    <!-- table algorithms/table.csv: method, linear = here_percent, verdict; table = mutualinfo.table1 -->
    <!-- number law/moco.csv: knn_gain_percent; series = ring, value = 0.8 -->+2.7 ± 0.5<!-- /number -->
    <!-- number colour/spaces.csv: knn_top1_percent; value = lab; over value = rgb -->+2.4 ± 1.3<!-- /number -->

A number is followed by the half-width of its 95 % interval, where the file has one; a gain has its sign. In a table a
gain is bold that survives Holm's correction for all gains of its column in the file, which says their seeds. Several
values of one column are separated by `|`, and a value may hold a comma; without a condition all rows are shown. The
claims' verdicts by paper follow `<!-- claims -->`.

What follows `over` selects another row: the number is then their difference in pairs of a seed, with an interval over
seeds. The other row's file, where it is another one, stands before its conditions: `over law/moco.csv: value = 0.8`.
"""

import argparse
import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from annulus.errors import InputError
from annulus.evals.families import from_half, survivors
from annulus.evals.intervals import over_seeds
from annulus.files.results import atomic_write
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.claims.verdicts import table, verdicts
from annulus_lab.report.papers.metrics import Metrics

INSTRUCTION = re.compile(r"<!-- table (?P<file>\S+): (?P<columns>[^;\n]+?)(?:; (?P<rows>[^\n]+?))? -->\n(?:\|.*\n)*")
NUMBER = re.compile(
    r"(?P<before><!-- number (?P<file>\S+): (?P<columns>[^;,\n]+?)(?:; (?P<rows>[^;\n]+?))?"
    r"(?:; over (?:(?P<base_file>\S+): )?(?P<base_rows>[^;\n]+?))? -->)"
    r"[^<\n]*(?P<after><!-- /number -->)"
)
CLAIMS = re.compile(r"<!-- claims -->\n(?:\|.*\n)*")
DIGITS = {"percent": 1, "nats": 2, "pixels": 1, "norm": 2, "cosine": 2}
SMALL = 0.1  # a column of smaller numbers and intervals has two more digits

Row = Mapping[str, str]


def main(argv: Sequence[str] | None = None) -> None:
    """Rewrites the tables. A user's mistake gives one sentence and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m annulus_lab.report.readme_numbers", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository")
    root = parser.parse_args(argv).root
    try:
        for path in pages(root):
            text = path.read_text(encoding="utf-8")
            new_text = with_numbers(text, root)
            if new_text != text:
                with atomic_write(path) as temporary:
                    temporary.write_text(new_text, encoding="utf-8")
                print(f"{path}: rewritten")
        print("All tables and numbers match the metrics files")
    except (InputError, OSError) as error:
        raise SystemExit(f"ERROR: {error}") from None


def pages(root: Path) -> list[Path]:
    """Returns the Markdown files with numbers from metrics files."""
    names = ("README.md", "metrics/RESULTS.md", "metrics/MAIN.md", "metrics/benchmarks/README.md")
    return [*(root / name for name in names), *sorted(root.glob("stages/*/README.md"))]


def with_numbers(text: str, root: Path) -> str:
    """Returns the Markdown with each table and each number read from its file.

    Raises:
        InputError: when an instruction names a missing file, column or row, or a number has several rows.
    """
    markdown = INSTRUCTION.sub(lambda match: _table(match, root), text)
    markdown = CLAIMS.sub(lambda _: f"<!-- claims -->\n{_lines(table(verdicts(Metrics(root))))}", markdown)
    return NUMBER.sub(lambda match: _number(match, root), markdown)


def _table(match: re.Match[str], root: Path) -> str:
    instruction = match.group(0).split("\n", 1)[0]
    columns, rows, every = _select(instruction, match["file"], match["columns"], match["rows"], root)
    cells = [_with_survivors(_cells(rows, column), column, rows, every) for column in columns.values()]
    return f"{instruction}\n{_lines([list(columns), *zip(*cells, strict=True)])}"


def _with_survivors(cells: list[str], column: str, rows: Sequence[Row], every: Sequence[Row]) -> list[str]:
    """Returns the cells, bold if the gain survives Holm's correction. A run in two tables of a file counts once."""
    seeds = next((name for name in ("gain_seeds", "seeds") if name in every[0]), None)
    if not _is_gain(column) or seeds is None:
        return cells
    stem, _, unit = column.rpartition("_")
    half = f"{stem}_interval_{unit}"
    family = {_run_key(row): row for row in every if row.get(half) and float(row[half])}
    gains = [from_half(float(row[column]), float(row[half]), int(float(row[seeds]))) for row in family.values()]
    stand = {key for key, stands in zip(family, survivors(gains), strict=True) if stands}
    return [f"**{cell}**" if _run_key(row) in stand else cell for cell, row in zip(cells, rows, strict=True)]


def _is_gain(column: str) -> bool:
    stem, _, unit = column.rpartition("_")
    return unit in DIGITS and ("gain" in stem or stem.startswith("over_"))


def _run_key(row: Row) -> tuple[str, ...]:
    """Returns all numbers measured here: two runs may share one of them, but not all."""
    names = (name for name in row if name.rpartition("_")[2] in DIGITS and not name.startswith("paper_"))
    return tuple(row[name] for name in names)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    """Returns a Markdown table. The first row is its heading."""
    heads, *others = rows
    return "".join(f"| {' | '.join(line)} |\n" for line in (heads, ["---"] * len(heads), *others))


def _number(match: re.Match[str], root: Path) -> str:
    before, column = match["before"], match["columns"]
    row = _one_row(before, match["file"], column, match["rows"], root)
    if match["base_rows"]:
        base = _one_row(before, match["base_file"] or match["file"], column, match["base_rows"], root)
        cell = _difference(before, column, row, base)
    else:
        [cell] = _cells([row], column)
    return f"{before}{cell}{match['after']}"


def _one_row(instruction: str, file: str, column: str, conditions: str | None, root: Path) -> Row:
    _, rows, _ = _select(instruction, file, column, conditions, root)
    if len(rows) > 1:
        raise InputError(f"{instruction}: {len(rows)} rows are left, and a number is of one; add conditions")
    return rows[0]


def _difference(instruction: str, column: str, row: Row, base: Row) -> str:
    """Returns the difference of two rows of the same seeds, in pairs of a seed."""
    stem, _, unit = column.rpartition("_")
    of_a_seed = re.compile(rf"{re.escape(stem)}_seed\d+_{unit}")
    values, others = (
        {name: float(value) for name, value in side.items() if of_a_seed.fullmatch(name) and value}
        for side in (row, base)
    )
    if not values or values.keys() != others.keys():
        seeds = " and ".join(", ".join(side) or "none" for side in (values, others))
        raise InputError(f"{instruction}: a difference needs the same seeds' numbers of both rows (here {seeds})")
    pairs = over_seeds([value - others[name] for name, value in values.items()])
    digits = DIGITS[unit]
    return f"{pairs.mean:+.{digits}f}" + ("" if pairs.half is None else f" ± {pairs.half:.{digits}f}")


def _select(
    instruction: str, file_name: str, names: str, conditions_text: str | None, root: Path
) -> tuple[dict[str, str], list[Row], list[Row]]:
    """Returns an instruction's columns by heading, the rows that its conditions select, and all rows of its file."""
    try:
        with (root / metrics_path(file_name)).open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise InputError(f"{instruction}: {metrics_path(file_name)}: {error.strerror}; run its study first") from error
    pairs = [column.partition("=")[::2] for column in names.split(",")]
    columns = {head.strip(): (column or head).strip() for head, column in pairs}
    parts = re.split(r",(?=[^,=]*=)", conditions_text) if conditions_text else []
    conditions = dict(map(_condition, parts))
    known = set(rows[0]) if rows else set()
    for name in [*columns.values(), *conditions]:
        if name not in known:
            raise InputError(f"{instruction}: the file has no column {name!r} (columns: {', '.join(sorted(known))})")
    matches = [row for row in rows if all(row[name] in values for name, values in conditions.items())]
    if not matches:
        raise InputError(f"{instruction}: no row is left; mend the conditions")
    return columns, matches, rows


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
    small = all(abs(float(text or 0)) < SMALL for pair in numbers for text in pair)
    form = f"{'+' if _is_gain(column) else ''}.{DIGITS[unit] + 2 * small}f"
    cells = []
    for (value, half), row_verdicts in zip(numbers, words, strict=True):
        is_base = "base" in row_verdicts or not row_verdicts
        if value == "" or (is_base and form.startswith("+") and float(value) == 0 == float(half or 0)):
            cells.append("")
            continue
        cells.append(f"{float(value):{form}}" + (f" ± {float(half):{form.lstrip('+')}}" if half else ""))
    return cells


if __name__ == "__main__":
    main(sys.argv[1:])
