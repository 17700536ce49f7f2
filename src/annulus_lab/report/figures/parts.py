"""Figures of any study's part: accuracies over the values of its sweep, or over the epochs."""

from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure

from annulus_lab.report.figures.catalogue import INTERVALS, Plot
from annulus_lab.report.figures.drawing import Row, curves, finish, group_by, numbers, panels
from annulus_lab.report.figures.studies import NN1, accuracy

PANELS = {"knn": "kNN", "linear": "linear probe"}
LOGARITHMIC = 4  # least ratio of the largest to the smallest value for a logarithmic axis


def part_plot(study: str, part: str, rows: Sequence[Row], label: str) -> Plot | None:
    """Returns the figure of STUDY/PART.csv; None for a sweep of words or of a single value.

    `rows`: the file's rows. `label`: name of the values. Without a sweep the figure shows STUDY/PART_figure.csv.

    Raises:
        ValueError: when the column of values is missing.
    """
    name, title = f"further.{study}.{part}", f"{study}: {part}"
    values = set(group_by(rows, "value"))
    if values == {""}:
        draw = partial(accuracy, x="x", y="nn1_top1_percent", label="epoch", unit=f"validation {NN1}")
        return Plot(name, title, "further", (f"{study}/{part}_figure.csv",), draw)
    if len(values) == 1 or any(isinstance(row["value"], str) for row in rows):
        return None
    return Plot(name, title, "further", (f"{study}/{part}.csv",), partial(over_values, label=label), bars=INTERVALS)


def over_values(rows: Sequence[Row], label: str) -> Figure:
    """Draws the accuracy of kNN and of the linear probe over the values of a sweep, one line per series.

    Raises:
        ValueError: when a column is missing or holds text.
    """
    across = numbers(rows, "value")
    logarithmic = min(across) > 0 and max(across) >= LOGARITHMIC * min(across)
    figure, axes = panels(*PANELS.values())
    for panel, measure in zip(axes, PANELS, strict=True):
        curves(panel, group_by(rows, "series"), "value", f"{measure}_top1_percent", f"{measure}_top1_interval_percent")
        finish(panel, label, "accuracy, percent", logarithmic, ticks=across if logarithmic else ())
    return figure
