"""The figure of distillation: students over alpha, a panel for each pair."""

from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import curves, finish, group_by, numbers, panels, reference
from annulus_lab.report.figures.studies import Rows

SWEPT = {"alpha-CPC": "CPC", "alpha-ML-CPC": "ML-CPC"}
FIXED = {"KD": ("KD", (8, 2)), "CRD": ("CRD", (4, 2)), "Student": ("alone", (1, 2))}  # label and dashes of the line


def over_alpha(rows: Rows) -> Figure:
    """Draws the accuracy of CPC's and ML-CPC's students over alpha, with a horizontal line for each other loss."""
    pairs = group_by(rows, "pair")
    figure, axes = panels(*pairs)
    for panel, pair in zip(axes, pairs.values(), strict=True):
        by_method = group_by(pair, "method")
        lines = {label: by_method[name] for name, label in SWEPT.items() if name in by_method}
        if not lines:
            raise ValueError(f"has no rows of {' or '.join(SWEPT)}")
        curves(panel, lines, "alpha", "here_percent", "here_interval_percent")
        for name, (label, dashes) in FIXED.items():
            if name in by_method:
                reference(panel, numbers(by_method[name], "here_percent")[0], label, dashes)
        ticks = sorted({alpha for some in lines.values() for alpha in numbers(some, "alpha")})
        finish(panel, "alpha", "test images, percent", log_x=True, ticks=ticks)
    return figure
