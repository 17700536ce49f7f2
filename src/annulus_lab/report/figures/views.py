"""Figures of the information that views share: accuracy, patches, colour spaces, generators, the spirals."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import (
    SERIES,
    curves,
    finish,
    group_by,
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

MOST_POINTS = 40  # most points of a spiral in the figure
FLOWS = {  # learned objective and changed views of a generator: label
    "raw input, none": "channels as they are",
    "nothing, all": "a random flow of all channels",
    "nothing, rest": "a random flow of the second view",
}


def against_information(*files: Rows) -> Figure:
    """Draws the linear probe over the information that two views share, a line for each series of each file."""
    figure, (axes,) = panels("")
    groups = {name: points for rows in files for name, points in group_by(rows, "series").items()}
    curves(axes, groups, "held_out_nats", "linear_top1_percent", "linear_top1_interval_percent")
    finish(axes, SHARED, LINEAR)
    return figure


def flow_probe(rows: Rows) -> Figure:
    """Draws the linear probe over the shared information: of an image's channels, and after random flows."""
    by_kind = group_by(rows, "learns", "changes")
    figure, (axes,) = panels("")
    _over_information(
        axes, {FLOWS[kind]: some for kind, some in by_kind.items() if kind in FLOWS}, "linear_top1", LINEAR
    )
    return figure


def generator_probe(rows: Rows, generator_curves: Rows) -> Figure:
    """Draws the linear probe over the shared information, by the generator's objective; the generators' curves."""
    groups = {name: some for name, some in group_by(rows, "learns").items() if name != "nothing"}
    figure, (left, right) = panels("encoders on the views", "generators while they learn")
    _over_information(left, groups, "linear_top1", LINEAR)
    shared = [row for row in generator_curves if row.get("shared_nats", 0) != ""]
    curves(right, group_by(shared, "series"), "step", "shared_nats", "shared_interval_nats")
    finish(right, "steps", "I_NCE that the estimators find, nats")
    return figure


def colour_spaces(rows: Rows) -> Figure:
    """Draws the linear probe and mean IoU over the information that the channels of each colour space share."""
    groups = group_by(rows, "series")
    figure, (left, right) = panels("classification", "segmentation")
    _over_information(left, groups, "linear_top1", LINEAR)
    _over_information(right, groups, "mean_iou", "mean IoU, percent")
    return figure


def _over_information(axes: Axes, groups: Mapping[str, Rows], y: str, label: str) -> None:
    """Draws points without a line, a look for each group, with both intervals."""
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
    """Draws the linear probe of each set over the patches' offset and shared information; the information by offset."""
    figure, (left, middle, right) = panels("over the distance", "over what is shared", "what is shared")
    groups = group_by(rows, "series")
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
    """Draws three read-outs and the shared information by the views' noise; the loss over training."""
    figure, (left, middle, right) = panels("linear read-out", "information between views", "training")
    columns = {"plane": "top1", "unit circle": "circle", "coordinates": "coordinates"}
    noise, read = numbers(points, "noise"), {}
    for name, column in columns.items():
        halves = [optional(row, f"{column}_interval_percent") or "" for row in points]
        columns = zip(noise, numbers(points, f"{column}_percent"), halves, strict=True)
        read[name] = [dict(zip(("noise", "percent", "half"), row, strict=True)) for row in columns]
    curves(left, read, "noise", "percent", "half")
    reference(left, 50.0, "chance")
    finish(left, "noise of a view", "percent of unseen points")
    curves(middle, {"bound": points}, "noise", "bound_nats", "bound_interval_nats")
    finish(middle, "noise of a view", "nats")
    curves(right, group_by(curve, "series"), "x", "loss_nats")
    finish(right, "iteration", "loss, nats")
    return figure


def learned_planes(rows: Rows) -> Figure:
    """Draws some unseen points in the learned plane of the first seed, by noise; a colour for each spiral."""
    groups = group_by(rows, "noise")
    figure, axes = panels(*(f"noise {noise}" for noise in groups))
    for panel, points in zip(axes, groups.values(), strict=True):
        for spiral, every in group_by(points, "spiral").items():
            on = every[:: -(-len(every) // MOST_POINTS)]
            panel.scatter(
                numbers(on, "x"), numbers(on, "y"), s=5, color=SERIES[int(float(spiral))], label=f"spiral {spiral}"
            )
        finish(panel, "first coordinate", "second coordinate")
    return figure
