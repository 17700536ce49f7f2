"""Figures of a study's part, whatever its question: accuracies over the values of its sweep, or over the epochs."""

from collections.abc import Sequence
from functools import partial

from matplotlib.figure import Figure

from annulus_lab.report.figures.catalogue import INTERVALS, Plot
from annulus_lab.report.figures.drawing import Row, curves, finish, grouped, numbers, panels
from annulus_lab.report.figures.studies import NN1, accuracy

PANELS = {"knn": "kNN", "linear": "linear probe"}
LOGARITHMIC = 4  # from so many times the least value on, the axis is logarithmic


def part_plot(study: str, part: str, rows: Sequence[Row], label: str) -> Plot | None:
    """The figure of STUDY/PART.csv, whose rows these are; none where the values that are swept have no order.

    `label` names the values. Without a sweep the figure is of STUDY/PART_figure.csv, over the epochs.

    Raises:
        ValueError: when there is no column of values.
    """
    name, title = f"further.{study}.{part}", f"{study}: {part}"
    values = set(grouped(rows, "value"))
    if values == {""}:
        draw = partial(accuracy, x="x", y="nn1_top1_percent", label="epoch", unit=f"validation {NN1}")
        return Plot(name, title, "further", (f"{study}/{part}_figure.csv",), draw)
    if len(values) == 1 or any(isinstance(row["value"], str) for row in rows):
        return None
    return Plot(name, title, "further", (f"{study}/{part}.csv",), partial(over_values, label=label), bars=INTERVALS)


def over_values(rows: Sequence[Row], label: str) -> Figure:
    """Accuracy of kNN and of the linear probe over the values of a sweep, one line per series.

    Raises:
        ValueError: when a column is not there or holds no number.
    """
    across = numbers(rows, "value")
    logarithmic = min(across) > 0 and max(across) >= LOGARITHMIC * min(across)
    figure, axes = panels(*PANELS.values())
    for panel, measure in zip(axes, PANELS, strict=True):
        curves(panel, grouped(rows, "series"), "value", f"{measure}_top1_percent", f"{measure}_top1_interval_percent")
        finish(panel, label, "accuracy, percent", logarithmic, ticks=across if logarithmic else ())
    return figure
