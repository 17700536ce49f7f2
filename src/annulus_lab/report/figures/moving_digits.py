"""The figure of the moving digits: each task's error by the factors that the two views share."""

from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import SERIES, numbers, optional, panels, plain
from annulus_lab.report.figures.studies import Rows

TASKS = {
    "digit": ("digit_error_percent", "digit_error_interval_percent", "wrong, percent"),
    "background": ("background_error_percent", "background_error_interval_percent", "wrong, percent"),
    "position": ("position_error_pixels", "position_error_interval_pixels", "distance, pixels"),
}


def moving_digits(rows: Rows) -> Figure:
    """Draws a panel for each task, a point for each row; filled if the views share the task's own factor."""
    figure, axes = panels(*TASKS)
    names = [plain(str(row.get("sharing", ""))) for row in rows]
    for panel, (task, (column, half, unit)) in zip(axes, TASKS.items(), strict=True):
        for place, (name, row, value) in enumerate(zip(names, rows, numbers(rows, column), strict=True)):
            fill = SERIES[0] if task in name.split(" + ") else "none"
            error = optional(row, half) or 0.0
            panel.errorbar([value], [-place], xerr=[error], fmt="o", color=SERIES[0], markerfacecolor=fill, capsize=2.5)
        panel.set_yticks([-place for place in range(len(names))], names)
        panel.set_xlim(left=0)
        panel.set_xlabel(unit)
        panel.set_ylabel("the views share")
    return figure
