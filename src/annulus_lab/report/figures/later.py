"""Gains over IR of the losses, samplers and positives published after the five papers, beside the oracle's.

A row that reads labels has a square. Filled marks are differences whose 95 % intervals exclude 0.
"""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from annulus_lab.report.figures.drawing import GROUND, INK, SERIES, WIDER, Row, numbers, optional, plain
from annulus_lab.report.figures.gains import AROUND, ROW, SIGNIFICANT

ROWS = "cifar10_later/table.csv"
LABELS = (
    "oracle",
    "HCL oracle",
    "oracle ball",
    "oracle-all",
    "SupCon out",
    "SupCon in",
    "late class",
    "late class SupCon",
    "class",
    "class SupCon",
)
# Rows at a higher temperature or with four negatives have a base of their own; the study's page compares them.
OTHER_BASE = ("MoCo-4", "MoCo-4 EqCo", "MoCo-4 DCL", "IR warm", "HCL warm", "debiased warm")
PANELS = {"linear probe": "here_gain", "kNN": "here_knn_gain"}


def later(rows: Sequence[Row]) -> Figure:
    """Draws gains over IR by the linear probe and by kNN, one line a row, the largest gain in kNN first.

    Raises:
        ValueError: when a column is missing, or no row besides the base has run.
    """
    compared = [row for row in rows if row["verdict"] != "base" and row["method"] not in OTHER_BASE]
    order = sorted(compared, key=lambda row: -numbers([row], "here_knn_gain_percent")[0])
    if not order:
        raise ValueError("holds no rows")
    figure = Figure(figsize=(WIDER, AROUND + ROW * len(order)), layout="constrained")
    for axes, (title, stem) in zip(figure.subplots(1, 2, sharey=True), PANELS.items(), strict=True):
        axes.axvline(0, color=INK, linewidth=1)
        _marks(axes, order, stem)
        axes.set_title(f"{title}, points over IR", loc="left")
        axes.tick_params(axis="y", length=0)
    first = figure.axes[0]
    first.set_yticks(range(len(order)), [plain(str(row["method"])) for row in order])
    first.set_ylim(len(order) - 0.5, -0.5)
    handles = [
        Line2D([], [], linestyle="none", marker=marker, color=SERIES[colour], markerfacecolor=fill, label=label)
        for label, marker, colour, fill in (
            ("no labels", "o", 0, SERIES[0]),
            ("reads labels", "s", 2, SERIES[2]),
            ("hollow: within noise", "o", 0, GROUND),
        )
    ]
    figure.legend(handles=handles, loc="outside lower left", ncols=3, handletextpad=0.3)
    return figure


def _marks(axes: Axes, rows: Sequence[Row], stem: str) -> None:
    verdict = "verdict" if stem == "here_gain" else "knn_verdict"
    for place, row in enumerate(rows):
        marker, colour = ("s", SERIES[2]) if row["method"] in LABELS else ("o", SERIES[0])
        axes.errorbar(
            numbers([row], f"{stem}_percent"), [place], xerr=[optional(row, f"{stem}_interval_percent") or 0.0],
            marker=marker, color=colour, elinewidth=1.2,
            markerfacecolor=colour if row[verdict] in SIGNIFICANT else GROUND,
        )  # fmt: skip
