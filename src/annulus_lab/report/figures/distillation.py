"""The figure of distillation: students over alpha, a panel for each pair."""

from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import curves, finish, grouped, numbers, panels, reference
from annulus_lab.report.figures.studies import Rows

SWEPT = {"alpha-CPC": "CPC", "alpha-ML-CPC": "ML-CPC"}
FIXED = {"KD": ("KD", (8, 2)), "CRD": ("CRD", (4, 2)), "Student": ("alone", (1, 2))}  # and the dashes of their lines


def over_alpha(rows: Rows) -> Figure:
    """Accuracy of CPC's and ML-CPC's students over alpha, between lines of those of the other losses."""
    pairs = grouped(rows, "pair")
    figure, axes = panels(*pairs)
    for panel, pair in zip(axes, pairs.values(), strict=True):
        by_method = grouped(pair, "method")
        swept = {label: by_method[name] for name, label in SWEPT.items() if name in by_method}
        if not swept:
            raise ValueError(f"has no rows of {' or '.join(SWEPT)}")
        curves(panel, swept, "alpha", "here_percent", "here_interval_percent")
        for name, (label, dashes) in FIXED.items():
            if name in by_method:
                reference(panel, numbers(by_method[name], "here_percent")[0], label, dashes)
        ticks = sorted({alpha for some in swept.values() for alpha in numbers(some, "alpha")})
        finish(panel, "alpha", "test images, percent", log_x=True, ticks=ticks)
    return figure
