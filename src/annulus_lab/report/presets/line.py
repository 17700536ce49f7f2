"""`annulus preset ring.table1a/IRing`: prints the command that runs a row of a paper's table, and its hours.

A row of the study `algorithms` runs at the study's own scale, unless --study or --scale name others. All other rows of
the papers' tables run at the papers' scale.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus_lab.compare.sides import repository
from annulus_lab.report.presets.hours import hours, row_hours
from annulus_lab.report.presets.listing import add_study
from annulus_lab.report.presets.preset import STUDY, Presets
from annulus_lab.report.presets.tables import TablePresets


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the command and, as a comment of the shell, the hours."""
    parser = argparse.ArgumentParser(prog="annulus preset", description=__doc__)
    parser.add_argument("name", help="TABLE/ROW, as `annulus presets TABLE` lists them")
    add_study(parser)
    arguments = parser.parse_args(argv)
    root = arguments.root or repository(Path())
    presets = Presets(root, arguments.study or STUDY, arguments.scale)
    if arguments.study or arguments.scale or arguments.name in presets.all:
        preset = presets.find(arguments.name)
        lines, comments = [presets.line(preset)], [hours(root, presets, preset)]
    else:
        tables = TablePresets(root)
        row = tables.find(arguments.name)
        lines, comments = tables.lines(row), row_hours(root, tables, row)
    print("\n".join([*lines, *(f"# {comment}" for comment in comments)]))
