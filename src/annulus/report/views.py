"""Figures of what views share: accuracy against their information, and generators that learn to share less."""

from matplotlib.figure import Figure

from annulus.report.drawing import curves, finish, grouped, looks, numbers, optional, panels, plain
from annulus.report.figures import LINEAR, Rows

SHARED = "I_NCE of unseen pairs, nats"


def against_information(*files: Rows) -> Figure:
    """The linear probe over what two views share, a line for each series of each file."""
    figure, (axes,) = panels(1)
    groups = {name: points for rows in files for name, points in grouped(rows, "series").items()}
    curves(axes, groups, "held_out_nats", "linear_top1_percent", "linear_top1_interval_percent")
    finish(axes, SHARED, LINEAR)
    return figure


def of_generators(rows: Rows, curves_of: Rows) -> Figure:
    """The linear probe over what views share, by what their generator learns; and how the generators learned."""
    groups = grouped(rows, "learns")
    figure, (left, right) = panels(2, ["encoders on the views", "generators while they learn"])
    for name, look in looks(groups).items():
        across, heights = numbers(groups[name], "held_out_nats"), numbers(groups[name], "linear_top1_percent")
        bars = {
            "xerr": [optional(row, "held_out_interval_nats") or 0.0 for row in groups[name]],
            "yerr": [optional(row, "linear_top1_interval_percent") or 0.0 for row in groups[name]],
        }
        look = look | {"linestyle": "", "label": plain(name)}
        left.errorbar(across, heights, **bars, capsize=2, elinewidth=0.7, **look)
    finish(left, SHARED, LINEAR)
    shared = [row for row in curves_of if row.get("shared_nats", 0) != ""]
    curves(right, grouped(shared, "series"), "step", "shared_nats", "shared_interval_nats")
    finish(right, "steps", "I_NCE that the estimators find, nats")
    return figure
