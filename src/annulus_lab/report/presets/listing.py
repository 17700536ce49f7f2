"""`annulus presets`: lists the papers' tables, the rows of one table, or a study's rows of the tables."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus.errors import InputError, nearest
from annulus_lab.compare.sides import repository
from annulus_lab.report.claims.verdicts import verdicts
from annulus_lab.report.papers.comparison import compare
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.report.presets.overview import TableState, table_states
from annulus_lab.report.presets.preset import STUDY, Presets, studies
from annulus_lab.report.presets.tables import TablePresets


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the list."""
    parser = argparse.ArgumentParser(prog="annulus presets", description=__doc__)
    parser.add_argument("table", nargs="?", help="the rows of one table, as ring.table1b")
    add_study(parser)
    arguments = parser.parse_args(argv)
    root = arguments.root or repository(Path())
    if arguments.study or arguments.scale:
        text = as_text(Presets(root, arguments.study or STUDY, arguments.scale))
    elif arguments.table:
        text = rows_as_text(TablePresets(root), arguments.table)
    else:
        metrics = Metrics(root)
        text = tables_as_text(table_states(root, compare(metrics), verdicts(metrics)))
        text += "\n\nannulus presets TABLE lists the rows of a table, annulus presets --study STUDY those of a study: "
        text += ", ".join(studies(root))
    print(text)
    print('\nannulus preset "NAME" prints the command of a row, and its hours')


def add_study(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that both commands have."""
    parser.add_argument("--study", help=f"a study's rows of the tables (with --scale alone: {STUDY})")
    parser.add_argument("--scale", help="demo, paper, ... (default: the study's own)")
    parser.add_argument("--root", type=Path, help="the repository; by default the one of the working directory")


def tables_as_text(states: Sequence[TableState]) -> str:
    """Returns lines for each table: rows that ran here, claims, commands and hours."""
    blocks = []
    for state in states:
        lines = [f"{state.table}  {state.title}"]
        if state.coverage != "not run":
            lines.append(f"    here: {state.coverage}")
        lines += [f"    {line}" for line in (*state.claims, str(state.commands), state.commands.line) if line]
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def rows_as_text(presets: TablePresets, table: str) -> str:
    """Returns the rows of a table; a row without a command has its reason.

    Raises:
        InputError: when the papers have no such table, with the nearest one.
    """
    if table not in presets.printed:
        raise InputError(f"the papers have no table {table!r}{nearest(table, presets.printed)}")
    rows = [row for row in presets.rows.values() if row.table == table]
    return "\n".join(f"{row.name}  (no command: {row.absent})" if row.absent else row.name for row in rows)


def as_text(presets: Presets) -> str:
    """Returns presets as a table: name, the study's row, the paper's number."""
    width = max(map(len, presets.all))
    rows = max(len(preset.row) for preset in presets.all.values())
    lines = [f"{'preset':<{width}}  {'row of ' + presets.name:<{rows}}  paper, linear probe, %"]
    for preset in presets.all.values():
        paper = "" if preset.top1_percent is None else f"{preset.top1_percent:.1f}"
        lines.append(f"{preset.name:<{width}}  {preset.row:<{rows}}  {paper:>5}".rstrip())
    return "\n".join(lines)
