"""The figure of what views share: accuracy against their information."""

from matplotlib.figure import Figure

from annulus.report.drawing import curves, finish, grouped, panels
from annulus.report.figures import LINEAR, Rows

SHARED = "I_NCE of unseen pairs, nats"


def against_information(*files: Rows) -> Figure:
    """The linear probe over what two views share, a line for each series of each file."""
    figure, (axes,) = panels(1)
    groups = {name: points for rows in files for name, points in grouped(rows, "series").items()}
    curves(axes, groups, "held_out_nats", "linear_top1_percent", "linear_top1_interval_percent")
    finish(axes, SHARED, LINEAR)
    return figure
