"""Figure of the learning curves of both sides: each seed, and the mean."""

import io
from collections import defaultdict
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from annulus.diagnostics.maps import short_name
from annulus.files.results import write_bytes
from annulus_lab.compare.comparison import SideComparison

COLOURS = {"base": "#6b7280", "head": "#c2410c"}
LONGEST = 60  # letters of a side's name: in wide letters they fill the picture's width
SHOWN = {"validation_nn1_percent": "nearest memory row, validation, %", "bound_nats": "bound, nats"}


def draw(comparison: SideComparison, path: Path) -> None:
    """Writes the figure; the path's suffix selects the format."""
    buffer = io.BytesIO()
    with matplotlib.rc_context({"text.parse_math": False}):  # an experiment may be called `$x$`
        _figure(comparison).savefig(buffer, format=path.suffix.removeprefix("."), dpi=150)
    write_bytes(path, buffer.getvalue())


def _figure(comparison: SideComparison) -> Figure:
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    legend = {}
    for axes, (column, label) in zip(figure.subplots(1, len(SHOWN)), SHOWN.items(), strict=True):
        for name, side in (("base", comparison.base), ("head", comparison.head)):
            means = defaultdict(list)
            points_by_seed = defaultdict(list)
            for row in side.curves:
                if column in row:
                    point = row["epoch"], row[column]
                    points_by_seed[row["seed"]].append(point)
                    means[point[0]].append(point[1])
            for points in points_by_seed.values():
                axes.plot(*zip(*points, strict=True), color=COLOURS[name], alpha=0.3, linewidth=0.8)
            if means:
                mean = [(epoch, sum(values) / len(values)) for epoch, values in sorted(means.items())]
                (legend[name],) = axes.plot(*zip(*mean, strict=True), color=COLOURS[name], linewidth=2)
        axes.set_xlabel("epoch")
        axes.set_ylabel(label)
        axes.spines[["top", "right"]].set_visible(False)
    if legend:
        names = {"base": comparison.base.name, "head": comparison.head.name}
        # ASCII letters, which the font has, and the end of the name, which is the commit.
        plain = {name: names[name].encode("ascii", "replace").decode() for name in legend}
        labels = [f"{name}: {short_name(text, LONGEST, end=10)}" for name, text in plain.items()]
        figure.legend(legend.values(), labels, frameon=False, loc="outside lower left")
    return figure
