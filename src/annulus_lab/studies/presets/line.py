"""`annulus preset ring.table1a/IRing`: prints the command that runs a row of a paper's table, and its hours."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus_lab.compare.sides import repository
from annulus_lab.studies.presets.hours import hours
from annulus_lab.studies.presets.listing import add_study
from annulus_lab.studies.presets.preset import Presets


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the command and, as a comment of the shell, the hours."""
    parser = argparse.ArgumentParser(prog="annulus preset", description=__doc__)
    parser.add_argument("name", help="TABLE/METHOD, as `annulus presets` lists them")
    add_study(parser)
    arguments = parser.parse_args(argv)
    root = arguments.root or repository(Path())
    presets = Presets(root, arguments.study, arguments.scale)
    preset = presets.find(arguments.name)
    lines = [presets.line(preset), f"# {hours(root, presets, preset)}"]
    print("\n".join(lines))
