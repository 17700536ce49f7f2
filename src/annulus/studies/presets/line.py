"""`annulus preset ring.table1a/IRing`: the command that runs a row of a paper's table, and its hours."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus.compare.sides import repository
from annulus.errors import InputError
from annulus.studies.presets.hours import hours
from annulus.studies.presets.listing import add_study
from annulus.studies.presets.preset import Presets


def main(argv: Sequence[str] | None = None) -> None:
    """Print the command and, as a comment of the shell, the hours. A user's mistake is one sentence, exit status 1."""
    parser = argparse.ArgumentParser(prog="annulus preset", description=__doc__)
    parser.add_argument("name", help="TABLE/METHOD, as `annulus presets` lists them")
    add_study(parser)
    arguments = parser.parse_args(argv)
    try:
        root = arguments.root or repository(Path())
        presets = Presets(root, arguments.study, arguments.scale)
        preset = presets.find(arguments.name)
        lines = [presets.line(preset), f"# {hours(root, presets, preset)}"]
    except InputError as error:
        raise SystemExit(f"ERROR: {error}") from None
    print("\n".join(lines))
