"""The page's figures: rows of metrics files -> matplotlib figures.

A figure function takes the rows of each of its files and returns a Figure. It raises ValueError if a column or a row is
missing; the page prints the reason in the figure's place.
"""

from collections.abc import Sequence
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import (
    INK,
    Row,
    curves,
    finish,
    group_by,
    looks,
    numbers,
    panels,
    plain,
    reference,
)

Rows = Sequence[Row]

NN1 = "1-NN accuracy, percent"
LINEAR = "linear probe accuracy, percent"

# Bound and alpha of the lines in figure 2 of ML-CPC, and their names there.
BOUNDS = {"CPC, 1": "CPC", "ML-CPC, lowest": "ML-CPC, lowest alpha"}

# Variants of the two-dimensional toy in its figure: the printed setting, and the closest to the printed numbers.
TOY = ("cosine", "cosine-slow-warm")


# --- learning curves and diagnostics of the main line -------------------------------------------------------


def over_training(rows: Rows, columns: dict[str, str], y: str, scale: float = 1.0) -> Figure:
    """Draws columns over epochs, without the columns that the file lacks. It raises if the file lacks all."""
    figure, (axes,) = panels("")
    _over_epochs(axes, rows, columns, scale)
    finish(axes, "epoch", y)
    return figure


def gradient(rows: Rows) -> Figure:
    """Draws the norm's mean over an epoch, with its standard deviation as a band; both are means over seeds."""
    figure, (axes,) = panels("")
    across, mean = _mean_over_seeds(rows, "gradient_norm")
    _, std = _mean_over_seeds(rows, "gradient_norm_std")
    look = looks(["mean"])["mean"]
    low = [m - d for m, d in zip(mean, std, strict=True)]
    high = [m + d for m, d in zip(mean, std, strict=True)]
    axes.fill_between(across, low, high, color=look["color"], alpha=0.18, linewidth=0)
    axes.plot(across, mean, color=look["color"])
    finish(axes, "epoch", "norm of the loss's gradient by the query")
    return figure


def geometry(rows: Rows) -> Figure:
    """Draws numbers of the embeddings, each in its own panel."""
    names = {
        "alignment": ("alignment (0: views fall together)", "squared distance"),
        "uniformity": ("uniformity (lower: more even)", "log of the mean potential"),
        "tolerance": ("tolerance (1: a class is one direction)", "mean cosine within a class"),
        "effective_rank": ("effective rank", "dimensions"),
        "staleness": ("staleness of the memory", "1 - cosine"),
    }
    names = {name: words for name, words in names.items() if any(name in row for row in rows)}
    if not names:
        raise ValueError("has none of the columns alignment, uniformity, tolerance, effective_rank, staleness")
    figure, axes = panels(*(title for title, _ in names.values()))
    for panel, (name, (_, unit)) in zip(axes, names.items(), strict=True):
        _over_epochs(panel, rows, {name: name}, 1.0)
        finish(panel, "epoch", unit)
    return figure


def _over_epochs(axes: Axes, rows: Rows, columns: dict[str, str], scale: float) -> None:
    """Draws each column's mean over seeds, and a light line for each of several seeds."""
    present = {column: label for column, label in columns.items() if any(column in row for row in rows)}
    if not present:
        raise ValueError(f"has none of the columns {', '.join(columns)}")
    seeds = list(group_by(rows, "seed").values())
    for column, look in zip(present, looks(present.values()).values(), strict=True):
        across, values = _mean_over_seeds(rows, column)
        look = look | {"marker": look["marker"] if len(values) <= 16 else ""}
        axes.plot(across, [value * scale for value in values], label=plain(present[column]), **look)
        for one in seeds if len(seeds) > 1 else []:
            heights = [value * scale for value in numbers(one, column)]
            axes.plot(numbers(one, "epoch"), heights, color=look["color"], linewidth=0.8, alpha=0.35, zorder=1.5)


def _mean_over_seeds(rows: Rows, column: str) -> tuple[list[float], list[float]]:
    """Returns the epochs, and a column's mean over the seeds at each."""
    values: dict[float, list[float]] = {}
    for epoch, value in zip(numbers(rows, "epoch"), numbers(rows, column), strict=True):
        values.setdefault(epoch, []).append(value)
    return list(values), [fmean(several) for several in values.values()]


# --- figures of the papers -----------------------------------------------------------------------------------


def accuracy(rows: Rows, x: str, y: str, label: str, unit: str, half: str = "", log_x: bool = False) -> Figure:
    """Draws one line per series over a swept setting or over epochs."""
    figure, (axes,) = panels("")
    curves(axes, group_by(rows, "series"), x, y, half)
    finish(axes, label, unit, log_x, ticks=numbers(rows, x) if log_x else ())
    return figure


def over_start(rows: Rows) -> Figure:
    """Draws accuracy by the share of training after which the negatives come from a ball."""
    figure, (axes,) = panels("")
    curves(axes, group_by(rows, "series"), "value", "nn1_top1_percent", "nn1_top1_interval_percent", 100.0)
    finish(axes, "plain negatives until, percent of training", NN1)
    return figure


def stability(history: Rows, bank: Rows) -> Figure:
    """Draws accuracy over epochs (the original objective by partition function, InfoNCE), and over the bank rate."""
    figure, (left, right) = panels("original IR and InfoNCE", "bank rate")
    curves(left, group_by(history, "series"), "x", "nn1_top1_percent")
    finish(left, "epoch", NN1)
    curves(right, group_by(bank, "series"), "value", "nn1_top1_percent", "nn1_top1_interval_percent")
    finish(right, "bank rate", NN1)
    return figure


def binary_values(rows: Rows) -> Figure:
    """Draws objective values of the binary pair over m, CPC beside ML-CPC, one line per alpha; the true information."""
    bounds = group_by(rows, "bound")
    figure, axes = panels(*bounds)
    truth = max(numbers(rows, "information_nats"))
    for panel, group in zip(axes, bounds.values(), strict=True):
        curves(
            panel, {f"alpha {alpha}": points for alpha, points in group_by(group, "alpha").items()}, "m", "value_nats"
        )
        reference(panel, truth, "log 2, true")
        panel.set_ylim(0, 2 * truth)
        finish(panel, "m, classes per positive", "estimate, nats", log_x=True, ticks=numbers(rows, "m"))
    return figure


def binary_errors(rows: Rows) -> Figure:
    """Draws bias and variance of CPC, and of ML-CPC at the lowest alpha that is proven to give a bound."""
    both = group_by(rows, "bound", "alpha")
    groups = {label: both[name] for name, label in BOUNDS.items() if name in both}
    if not groups:
        raise ValueError(f"has no rows of {' or '.join(BOUNDS.values())}")
    figure, axes = panels("bias", "variance")
    for panel, column, unit in zip(axes, ("bias_nats", "variance"), ("bias, nats", "variance, nats²"), strict=True):
        curves(panel, groups, "m", column)
        finish(panel, "m, classes per positive", unit, log_x=True, ticks=numbers(rows, "m"))
    return figure


def ideal(rows: Rows) -> Figure:
    """Draws estimates with the true density ratio as critic over the true information: with and without a ceiling."""
    numbers(rows, "information_nats")
    capped = [row for row in rows if row.get("ceiling_nats") != ""]
    parts = {"with a ceiling": capped, "without": [row for row in rows if row.get("ceiling_nats") == ""]}
    parts = {title: part for title, part in parts.items() if part}
    figure, axes = panels(*parts)
    for panel, part in zip(axes, parts.values(), strict=True):
        curves(panel, group_by(part, "series"), "information_nats", "estimate_nats", "std_nats")
        across = sorted(set(numbers(rows, "information_nats")))
        panel.plot(across, across, color=INK, linewidth=1, linestyle=(0, (2, 2)), label="true")
        finish(panel, "true information, nats", "estimate, nats")
    return figure


def staircase(rows: Rows) -> Figure:
    """Draws estimates while the true information rises, CPC beside ML-CPC, one line per alpha."""
    bounds = group_by(rows, "bound")
    figure, axes = panels(*bounds)
    top = max(numbers(rows, "information_nats"))
    for panel, group in zip(axes, bounds.values(), strict=True):
        for name, points in group_by(group, "alpha").items():
            look = looks(group_by(rows, "alpha"))[name]
            look = {"color": look["color"], "linestyle": look["linestyle"], "linewidth": 1.1}
            panel.plot(
                numbers(points, "iteration"),
                numbers(points, "estimate_nats"),
                label=f"alpha {plain(name)}",
                **look,
            )
        truth = dict(zip(numbers(group, "iteration"), numbers(group, "information_nats"), strict=True))
        panel.plot(list(truth), list(truth.values()), color=INK, linewidth=1, label="true")
        panel.set_ylim(-0.5, top * 1.5)  # early or unbounded estimates may lie outside
        finish(panel, "iteration", "estimate, nats")
    return figure


def gaussians(rows: Rows) -> Figure:
    """Draws estimates over the number of pairs, one line per true information, one panel per method."""
    methods = group_by(rows, "method")
    figure, axes = panels(*methods)
    for panel, group in zip(axes, methods.values(), strict=True):
        levels = {f"{name} nats": level for name, level in group_by(group, "information_nats").items()}
        curves(panel, levels, "pairs", "estimate_nats", "std_over_seeds_nats")
        ceilings = dict(zip(numbers(group, "pairs"), numbers(group, "ceiling_nats"), strict=True))
        panel.plot(list(ceilings), list(ceilings.values()), color=INK, linestyle=(0, (2, 2)), label="ceiling")
        panel.set_ylim(0, max(numbers(rows, "information_nats")) * 1.1)
        finish(panel, "pairs in a batch", "estimate, nats", log_x=True, ticks=list(ceilings))
    return figure


def conditional(rows: Rows) -> Figure:
    """Draws NCE and CNCE by the share of closest negatives, a panel for each kind of points, with CNCE's supremum.

    The axes are logarithmic, so they omit estimates of 0 and less.
    """
    above = [row for row, value in zip(rows, numbers(rows, "estimate_nats"), strict=True) if value > 0]
    toys = [row for name, group in group_by(above, "variant").items() if name in TOY for row in group]
    if not toys:
        raise ValueError(f"has no estimate above 0 of {' or '.join(TOY)}")
    by_points = group_by(toys, "points")
    figure, axes = panels(*(f"points: {name}" for name in by_points))
    most = dict(zip(numbers(toys, "percent_closest"), numbers(toys, "supremum_nats"), strict=True))
    for panel, group in zip(axes, by_points.values(), strict=True):
        bars = "interval_nats" if all(row.get("interval_nats") != "" for row in group) else ""  # one seed has none
        curves(panel, group_by(group, "variant"), "percent_closest", "estimate_nats", bars)
        panel.plot(*zip(*sorted(most.items()), strict=True), color=INK, linewidth=1, label="supremum of CNCE")
        reference(panel, max(numbers(rows, "information_nats")), "true")
        panel.set_ylim(1e-7, 0.1)  # farther left the supremum lies outside
        finish(panel, "closest negatives kept, percent", "estimate, nats", log_x=True, log_y=True, ticks=list(most))
    return figure


def bias_and_spread(rows: Rows) -> Figure:
    """Draws the mean estimate and its standard deviation over draws of the negatives, with one fixed encoder."""
    figure, (left, right) = panels("mean", "standard deviation over draws")
    groups = group_by(rows, "series")
    curves(left, groups, "k", "mean_nats")
    finish(left, "k, negatives", "mean estimate, nats", log_x=True, ticks=numbers(rows, "k"))
    curves(right, {name: [r for r in g if r["std_nats"] != 0] or g for name, g in groups.items()},
           "k", "std_nats")  # fmt: skip
    finish(right, "k, negatives", "standard deviation, nats", log_x=True, log_y=True, ticks=numbers(rows, "k"))
    return figure
