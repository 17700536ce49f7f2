"""The learning curves of both sides: each seed, and their mean."""

import io
from collections import defaultdict
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from annulus.compare.table import Comparison
from annulus.diagnostics.maps import short_name
from annulus.files.results import write_bytes

COLOURS = {"base": "#6b7280", "head": "#c2410c"}
LONGEST = 60  # letters of a side's name: as wide as the picture where all are wide
SHOWN = {"validation_nn1_percent": "nearest memory row, validation, %", "bound_nats": "bound, nats"}


def draw(comparison: Comparison, path: Path) -> None:
    """Write the figure; the path's suffix selects the format."""
    drawn = io.BytesIO()
    with matplotlib.rc_context({"text.parse_math": False}):  # an experiment called `$x$` is no formula
        _figure(comparison).savefig(drawn, format=path.suffix.removeprefix("."), dpi=150)
    write_bytes(path, drawn.getvalue())


def _figure(comparison: Comparison) -> Figure:
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    legend = {}
    for axes, (column, label) in zip(figure.subplots(1, len(SHOWN)), SHOWN.items(), strict=True):
        for name, side in (("base", comparison.base), ("head", comparison.head)):
            means = defaultdict(list)
            of_seeds = defaultdict(list)
            for row in side.curves:
                if column in row:
                    point = row["epoch"], row[column]
                    of_seeds[row["seed"]].append(point)
                    means[point[0]].append(point[1])
            for points in of_seeds.values():
                axes.plot(*zip(*points, strict=True), color=COLOURS[name], alpha=0.3, linewidth=0.8)
            if means:
                mean = [(epoch, sum(values) / len(values)) for epoch, values in sorted(means.items())]
                (legend[name],) = axes.plot(*zip(*mean, strict=True), color=COLOURS[name], linewidth=2)
        axes.set_xlabel("epoch")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    if legend:
        names = {"base": comparison.base.name, "head": comparison.head.name}
        # In letters that the picture's font has, and with the end, which is the commit.
        plain = {name: names[name].encode("ascii", "replace").decode() for name in legend}
        labels = [f"{name}: {short_name(shown, LONGEST, end=10)}" for name, shown in plain.items()]
        figure.legend(legend.values(), labels, frameon=False, loc="outside lower left")
    return figure
