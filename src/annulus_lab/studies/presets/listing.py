"""`annulus presets`: lists each row of the papers' tables that can run, by the name that `annulus preset` takes."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus_lab.compare.sides import repository
from annulus_lab.studies.presets.preset import STUDY, Presets


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the list."""
    parser = argparse.ArgumentParser(prog="annulus presets", description=__doc__)
    add_study(parser)
    arguments = parser.parse_args(argv)
    presets = Presets(arguments.root or repository(Path()), arguments.study, arguments.scale)
    print(as_text(presets))
    print('\nannulus preset "NAME" prints the command that runs one, and its hours')


def add_study(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments that both commands have."""
    parser.add_argument("--study", default=STUDY, help=f"a study with the papers' tables (default: {STUDY})")
    parser.add_argument("--scale", help="demo, paper, ... (default: the study's own)")
    parser.add_argument("--root", type=Path, help="the repository; by default the one of the working directory")


def as_text(presets: Presets) -> str:
    """Presets as a table: name, the study's row, the paper's number."""
    width = max(map(len, presets.all))
    rows = max(len(preset.row) for preset in presets.all.values())
    lines = [f"{'preset':<{width}}  {'row of ' + presets.name:<{rows}}  paper, linear probe, %"]
    for preset in presets.all.values():
        paper = "" if preset.top1_percent is None else f"{preset.top1_percent:.1f}"
        lines.append(f"{preset.name:<{width}}  {preset.row:<{rows}}  {paper:>5}".rstrip())
    return "\n".join(lines)
