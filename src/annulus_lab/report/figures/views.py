"""Figures of what views share: accuracy against their information, patches, colour spaces, generators, the spirals."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import (
    SERIES,
    curves,
    finish,
    grouped,
    looks,
    numbers,
    optional,
    panels,
    plain,
    reference,
)
from annulus_lab.report.figures.studies import LINEAR, Rows

SHARED = "I_NCE of unseen pairs, nats"
OFFSET = "offset of the second patch, pixels"

MOST_POINTS = 40  # of a spiral that are drawn
FLOWS = {  # what a generator learns and changes
    "raw input, none": "channels as they are",
    "nothing, all": "a random flow of all channels",
    "nothing, rest": "a random flow of the second view",
}


def against_information(*files: Rows) -> Figure:
    """The linear probe over what two views share, a line for each series of each file."""
    figure, (axes,) = panels("")
    groups = {name: points for rows in files for name, points in grouped(rows, "series").items()}
    curves(axes, groups, "held_out_nats", "linear_top1_percent", "linear_top1_interval_percent")
    finish(axes, SHARED, LINEAR)
    return figure


def flow_probe(rows: Rows) -> Figure:
    """The linear probe over what views share: of an image's channels, and after random flows."""
    by_kind = grouped(rows, "learns", "changes")
    figure, (axes,) = panels("")
    _over_information(
        axes, {FLOWS[kind]: some for kind, some in by_kind.items() if kind in FLOWS}, "linear_top1", LINEAR
    )
    return figure


def generator_probe(rows: Rows, curves_of: Rows) -> Figure:
    """The linear probe over what views share, by what their generator learns; and how the generators learned."""
    groups = {name: some for name, some in grouped(rows, "learns").items() if name != "nothing"}
    figure, (left, right) = panels("encoders on the views", "generators while they learn")
    _over_information(left, groups, "linear_top1", LINEAR)
    shared = [row for row in curves_of if row.get("shared_nats", 0) != ""]
    curves(right, grouped(shared, "series"), "step", "shared_nats", "shared_interval_nats")
    finish(right, "steps", "I_NCE that the estimators find, nats")
    return figure


def colour_spaces(rows: Rows) -> Figure:
    """The linear probe, and mean IoU, over what the channels of each colour space share."""
    groups = grouped(rows, "series")
    figure, (left, right) = panels("classification", "segmentation")
    _over_information(left, groups, "linear_top1", LINEAR)
    _over_information(right, groups, "mean_iou", "mean IoU, percent")
    return figure


def _over_information(axes: Axes, groups: Mapping[str, Rows], y: str, label: str) -> None:
    """Points without a line, a look for each group, with both intervals."""
    for name, look in looks(groups).items():
        across, heights = numbers(groups[name], "held_out_nats"), numbers(groups[name], f"{y}_percent")
        bars = {
            "xerr": [optional(row, "held_out_interval_nats") or 0.0 for row in groups[name]],
            "yerr": [optional(row, f"{y}_interval_percent") or 0.0 for row in groups[name]],
        }
        look = look | {"linestyle": "", "label": plain(name)}
        axes.errorbar(across, heights, **bars, capsize=2, elinewidth=0.7, **look)
    finish(axes, SHARED, label)


def distance(rows: Rows) -> Figure:
    """The linear probe of each set over the patches' offset and over what they share; what they share by the offset."""
    figure, (left, middle, right) = panels("over the distance", "over what is shared", "what is shared")
    groups = grouped(rows, "series")
    curves(left, groups, "value", "linear_top1_percent", "linear_top1_interval_percent")
    finish(left, OFFSET, LINEAR)
    curves(middle, groups, "held_out_nats", "linear_top1_percent", "linear_top1_interval_percent")
    finish(middle, SHARED, LINEAR)
    one = next(iter(groups.values()))  # the runs are the same for each set
    curves(right, {"I_NCE": one}, "value", "held_out_nats", "held_out_interval_nats")
    reference(right, numbers(one, "held_out_ceiling_nats")[0], "ceiling")
    finish(right, OFFSET, "nats")
    return figure


def spirals(points: Rows, curve: Rows) -> Figure:
    """Three read-outs and what views share, by their noise; the loss over training."""
    figure, (left, middle, right) = panels("linear read-out", "information between views", "training")
    of = {"plane": "top1", "unit circle": "circle", "coordinates": "coordinates"}
    noise, read = numbers(points, "noise"), {}
    for name, column in of.items():
        halves = [optional(row, f"{column}_interval_percent") or "" for row in points]
        columns = zip(noise, numbers(points, f"{column}_percent"), halves, strict=True)
        read[name] = [dict(zip(("noise", "percent", "half"), row, strict=True)) for row in columns]
    curves(left, read, "noise", "percent", "half")
    reference(left, 50.0, "chance")
    finish(left, "noise of a view", "percent of unseen points")
    curves(middle, {"bound": points}, "noise", "bound_nats", "bound_interval_nats")
    finish(middle, "noise of a view", "nats")
    curves(right, grouped(curve, "series"), "x", "loss_nats")
    finish(right, "iteration", "loss, nats")
    return figure


def learned_planes(rows: Rows) -> Figure:
    """Some unseen points in the learned plane of the first seed, by noise; a colour for each spiral."""
    groups = grouped(rows, "noise")
    figure, axes = panels(*(f"noise {noise}" for noise in groups))
    for panel, points in zip(axes, groups.values(), strict=True):
        for spiral, every in grouped(points, "spiral").items():
            on = every[:: -(-len(every) // MOST_POINTS)]
            panel.scatter(
                numbers(on, "x"), numbers(on, "y"), s=5, color=SERIES[int(float(spiral))], label=f"spiral {spiral}"
            )
        finish(panel, "first coordinate", "second coordinate")
    return figure
