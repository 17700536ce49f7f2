"""Compares two variants of the main line: `annulus compare BASE [HEAD]`."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus.errors import InputError
from annulus.files.results import check_folder, write_table
from annulus_lab.compare.comparison import compare
from annulus_lab.compare.record import as_rows
from annulus_lab.compare.sides import read_side, repository
from annulus_lab.compare.text import as_markdown, as_text
from annulus_lab.pipeline.revision import WORKSPACE

STALE = 3  # exit status if a side's numbers do not belong to its parameters


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table; exits with the status STALE if a side's numbers do not belong to its parameters."""
    parser = argparse.ArgumentParser(prog="annulus compare", description=__doc__)
    parser.add_argument("base", help="a git revision, a DVC experiment's name, or `workspace`")
    parser.add_argument("head", nargs="?", default=WORKSPACE, help="the same; by default the workspace")
    parser.add_argument("--markdown", action="store_true", help="as a pull request shows it")
    parser.add_argument("--figure", type=Path, help="write the learning curves there too: .png or .svg")
    parser.add_argument(
        "--neighbours", type=Path, metavar="FILE", help="write the nearest images of test images by both there: .png"
    )
    parser.add_argument("--csv", type=Path, help="write the table there too")
    parser.add_argument("--root", type=Path, help="the repository; by default the one of the working directory")
    arguments = parser.parse_intermixed_args(argv)  # HEAD may stand after the options
    if arguments.figure is not None and arguments.figure.suffix not in (".png", ".svg"):
        raise InputError(f"--figure {arguments.figure}: the name must end in .png or .svg")
    if arguments.neighbours is not None and arguments.neighbours.suffix != ".png":
        raise InputError(f"--neighbours {arguments.neighbours}: the name must end in .png")
    for option in ("figure", "neighbours", "csv"):
        check_folder(f"--{option}", getattr(arguments, option))
    root, names = arguments.root or repository(Path()), (arguments.base, arguments.head)
    sides = tuple(read_side(root, name) for name in names)
    comparison = compare(*sides)
    if arguments.figure is not None and not comparison.stale:
        from annulus_lab.compare.figure import draw  # matplotlib and torch take seconds

        draw(comparison, arguments.figure)
    if arguments.neighbours is not None and not comparison.stale:
        from annulus_lab.compare.neighbours import draw_neighbours

        draw_neighbours(root, names, sides, arguments.neighbours)
    if arguments.csv is not None and not comparison.stale:
        write_table(arguments.csv, as_rows(comparison))
    print(as_markdown(comparison) if arguments.markdown else as_text(comparison))
    if comparison.stale:
        raise SystemExit(STALE)
