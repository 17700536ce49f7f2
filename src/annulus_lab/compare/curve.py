"""`annulus curve`: the workspace's learning curve in the terminal, as plain text, mean over seeds."""

import argparse
import os
import shutil
import sys
import textwrap
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from annulus.errors import InputError
from annulus_lab.compare.sides import read_curves, repository, side_files
from annulus_lab.pipeline.revision import WORKSPACE

LINES, WIDEST = 7, 100
# Column, its name, its mark and its colour on a terminal. The first mark is on top.
ACCURACIES = (
    ("online_linear_top1_percent", "linear probe", "*", 33),
    ("validation_nn1_percent", "nearest neighbour", "o", 36),
)
BOUND = ("bound_nats", "bound", "*", 33)

LearningCurve = list[tuple[float, float]]  # epochs, ascending, and values


def as_text(rows: Sequence[Mapping[str, float]], width: int, coloured: bool = False) -> str:
    """Curves of validation accuracy, at most `width` columns wide; of the bound, if no image has a class.

    Raises:
        InputError: when the rows have neither.
    """
    means = {series: mean_over_seeds(rows, series[0]) for series in ACCURACIES}
    curves = {series: curve for series, curve in means.items() if curve} or {BOUND: mean_over_seeds(rows, BOUND[0])}
    if not all(curves.values()):
        raise InputError("metrics/main/pretrain_history.csv has no accuracy and no bound; run `dvc repro`")
    title, unit = ("bound", "nats") if BOUND in curves else ("validation accuracy", "%")
    values = [value for curve in curves.values() for _, value in curve]
    epochs = sorted({epoch for curve in curves.values() for epoch, _ in curve})
    low, high = min(values), max(values)
    label = max(len(_number(low)), len(_number(high)), 4)  # the word epoch fits below
    columns = max(min(width, WIDEST) - label - 3, 2)
    grid = [[" "] * columns for _ in range(LINES)]
    for (_, _, mark, colour), curve in reversed(curves.items()):
        for column in range(columns):
            epoch = epochs[0] + (epochs[-1] - epochs[0]) * column / (columns - 1)
            height = (value_at(curve, epoch) - low) / ((high - low) or 1.0)
            grid[LINES - 1 - round(height * (LINES - 1))][column] = _paint(mark, colour, coloured)
    legend = [
        f"{_paint(mark, colour, coloured)} {name} {_number(curve[-1][1])} {unit}"
        for (_, name, mark, colour), curve in curves.items()
    ]
    seeds = len({row["seed"] for row in rows})
    last = f"{epochs[-1]:g}"
    title = f"{title} in pretraining, {f'mean of {seeds} seeds' if seeds > 1 else 'one seed'}, after the last epoch:"
    return "\n".join(
        [
            *textwrap.wrap(title, width),
            *legend,
            *(
                f"{_number(high) if line == 0 else _number(low) if line == LINES - 1 else '':>{label}} |"
                + "".join(cells).rstrip()
                for line, cells in enumerate(grid)
            ),
            f"{'':>{label}} +{'-' * columns}",
            f"{'epoch':<{label + 2}}{epochs[0]:g}".ljust(label + 2 + columns - len(last)) + last,
        ]
    )


def mean_over_seeds(rows: Sequence[Mapping[str, float]], column: str) -> LearningCurve:
    """Mean of a column at each epoch that has it."""
    values = defaultdict(list)
    for row in rows:
        if column in row:
            values[row["epoch"]].append(row[column])
    return [(epoch, fmean(values[epoch])) for epoch in sorted(values)]


def value_at(curve: LearningCurve, epoch: float) -> float:
    """Value of a curve at an epoch: linear between its epochs, constant outside."""
    before = max((point for point in curve if point[0] <= epoch), default=curve[0])
    after = min((point for point in curve if point[0] >= epoch), default=curve[-1])
    if before[0] >= after[0]:
        return after[1]
    return before[1] + (after[1] - before[1]) * (epoch - before[0]) / (after[0] - before[0])


def _number(value: float) -> str:
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def _paint(mark: str, colour: int, coloured: bool) -> str:
    return f"\033[{colour}m{mark}\033[0m" if coloured else mark


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the curve."""
    parser = argparse.ArgumentParser(prog="annulus curve", description=__doc__)
    parser.add_argument("--root", type=Path, help="the repository; by default the one of the working directory")
    arguments = parser.parse_args(argv)
    rows = read_curves(side_files(arguments.root or repository(Path()), WORKSPACE))
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    print(as_text(rows, shutil.get_terminal_size().columns, coloured))
