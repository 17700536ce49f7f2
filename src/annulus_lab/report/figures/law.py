"""The figures and the points of the law: a sampler's gain over uniform negatives, against a weight.

The weight is the closest tenth's share of the loss's gradient under uniform negatives. Of InfoNCE it is the tenth's
softmax weight, which falls with the temperature. A point also has the temperature: t, or that of HCL's negatives,
t/(1 + beta).
"""

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import INK, Row, finish, group_by, looks, numbers, optional, panels, plain
from annulus_lab.report.figures.gains import SIGNIFICANT
from annulus_lab.report.figures.law_correlations import Point
from annulus_lab.studies.shared.measured import GRADIENT


class Part(NamedTuple):
    """A file's suffix of the names of its series, and their temperature t; None: t is the value of the sweep."""

    behind: str = ""
    temperature: float | None = None
    hcl: bool = False  # the sweep's value is HCL's beta

    def temperatures(self, rows: Sequence[Row]) -> list[float]:
        """Returns t of each row."""
        return numbers(rows, "value") if self.temperature is None else [self.temperature] * len(rows)

    def negative_temperatures(self, rows: Sequence[Row]) -> list[float]:
        """Returns the temperature at which the loss of each row weighs its negatives."""
        betas = numbers(rows, "value") if self.hcl else [0.0] * len(rows)
        return [temperature / (1 + beta) for temperature, beta in zip(self.temperatures(rows), betas, strict=True)]


ORACLES = {"law_controls/oracle.csv": Part()}  # negatives of other classes, by the labels
REAL = {
    "law/ir-256.csv": Part(),
    "law/ir-1024.csv": Part(),
    "law/moco.csv": Part(", MoCo"),
    "law/alexnet.csv": Part(", AlexNet"),
    "law/resnet18.csv": Part(", ResNet-18"),
    "law/resnet18-long.csv": Part(", ResNet-18 for 40 epochs"),
    "full_law/ir.csv": Part(", all images"),
    "full_law/ir-long.csv": Part(", all images for 60 epochs"),
    "full_law/moco.csv": Part(", MoCo, all images"),
    "full_law/moco-long.csv": Part(", MoCo, all images for 60 epochs"),
    **ORACLES,
}
CONTROLS = {  # another setting changes the weight too, or each temperature has its own learning rate
    "law_controls/hcl-cold.csv": Part(", HCL at 0.1", 0.1, hcl=True),
    "law_controls/hcl.csv": Part(", HCL at 0.2", 0.2, hcl=True),
    "law_controls/hcl-warm.csv": Part(", HCL at 0.4", 0.4, hcl=True),
    "law_controls/hcl-hot.csv": Part(", HCL at 0.8", 0.8, hcl=True),
    "law_controls/count.csv": Part(", counts", 0.2),
    "law_controls/queue.csv": Part(", bank and queue", 0.2),
    "law_controls/dimension.csv": Part(", dimensions", 0.2),
    **dict.fromkeys(
        (f"law_controls/rate-{name}.csv" for name in ("coldest", "cold", "hot")), Part(", a rate of its own")
    ),
}
# Rows of cifar10_later: the base, InfoNCE of the same temperature, and the temperature of the negatives. Oracle and
# SupCon read labels; a schedule stands at its mean temperature.
ORACLE = "oracle"
SAMPLERS = ("RING", "BALL", "CAVE", "RING+anneal", "BALL+anneal", "CAVE+anneal", "MoCHi", ORACLE)
LATER = {
    **dict.fromkeys((*SAMPLERS, "DCL", "DCLW", "debiased", "NNCLR"), ("IR", 0.2)),
    "SupCon out": ("oracle-all", 0.2),
    "SupCon in": ("oracle-all", 0.2),
    "schedule": ("IR cold", 0.55),
    "HCL": ("IR", 0.1),
    "DCL cold": ("IR cold", 0.1),
    "sigmoid": ("IR cold", 0.1),
    "HCL warm": ("IR warm", 0.25),
    "debiased warm": ("IR warm", 0.5),
}
CONTROL_FILES = CONTROLS | ORACLES
SYNTHETIC = {"embedded_law/ir-256.csv": Part(), "embedded_law/moco.csv": Part(", MoCo")}
BASE = "uniform"
WEIGHT = "hard_weight_percent"
SHARE = "weight of the closest tenth in the loss, percent"
T, NEGATIVES = "t", "of the negatives"  # the temperature of a point of HCL
ONE = 0.2  # temperature of most controls; at lower temperatures no ring of law gains
ENDS = ("_percent", "_interval_percent")
APART = 1.01  # factor between neighbouring series, so that their points do not cover each other


class LawGain(NamedTuple):
    """A sampler's row, and the weight of its base: uniform negatives of the same setting, in the same file."""

    weight_percent: float
    row: Row


def law(parts: Mapping[str, Part], *files: Sequence[Row]) -> Figure:
    """Draws the gains of each sampler by kNN and by linear probe, over the weight of the closest tenth.

    `parts`: REAL, CONTROL_FILES or SYNTHETIC. `files`: the rows of each of these files.

    Raises:
        ValueError: when a column or a base is missing.
    """
    series: dict[str, list[tuple[float, Row]]] = {}
    for part, rows in zip(parts.values(), files, strict=True):
        for gain in sampler_gains(rows):
            series.setdefault(f"{gain.row['series']}{part.behind}", []).append((gain.weight_percent, gain.row))
    return _draw(series, SHARE, f"gain over {BASE}, points")


def later_losses(table: Sequence[Row], pairs: Sequence[Row]) -> Figure:
    """Draws the gains of later losses, samplers and positives: rows of cifar10_later's table and of its pairs.

    Raises:
        ValueError: when a column is missing, or no row of LATER has run.
    """
    table_rows = {row["method"]: row for row in table}
    pair_rows = {(row["row"], row["base"]): row for row in pairs}
    series: dict[str, list[tuple[float, Row]]] = {}
    for name, (base, temperature) in LATER.items():
        row, stem = (table_rows.get(name), "here_") if base == "IR" else (pair_rows.get((name, base)), "")
        if row is not None:
            kinds = {"knn": f"{stem}knn_gain", "linear": f"{stem}gain"}
            gains = {f"{kind}_gain{end}": row[f"{column}{end}"] for kind, column in kinds.items() for end in ENDS}
            series.setdefault(name.removesuffix(" cold").removesuffix(" warm"), []).append((temperature, gains))
    if not series:
        raise ValueError("holds no later loss")
    ticks = [temperature for points in series.values() for temperature, _ in points]
    return _draw(series, "temperature of the negatives", "gain over the row's base, points", ticks)


def _draw(
    series: Mapping[str, Sequence[tuple[float, Row]]], across: str, gain: str, ticks: Sequence[float] = ()
) -> Figure:
    """Draws the points of the series, and the oracle's line with its interval; with `ticks` over a logarithmic axis."""
    oracle, series = series.get(ORACLE), {name: points for name, points in series.items() if name != ORACLE}
    figure, (left, right) = panels("kNN", "linear probe")
    for axes, evaluation in ((left, "knn"), (right, "linear")):
        finish(axes, across, gain, log_x=bool(ticks), ticks=ticks)
        axes.axhline(0, color=INK, linewidth=0.8)
        _draw_points(axes, series, evaluation)
        if oracle:
            _draw_line(axes, oracle, evaluation)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3, columnspacing=1.2)
    return figure


def _draw_line(axes: Axes, points: Sequence[tuple[float, Row]], evaluation: str) -> None:
    """Draws a line over the places of its points; for a single place, a line across the axis."""
    places, rows = zip(*sorted(points, key=operator.itemgetter(0)), strict=True)
    heights = numbers(rows, f"{evaluation}_gain_percent")
    halves = [optional(row, f"{evaluation}_gain_interval_percent") or 0.0 for row in rows]
    if len(places) == 1:
        places, heights, halves = axes.get_xlim(), heights * 2, halves * 2
    axes.plot(places, heights, color=INK, linewidth=1.2, dashes=(4, 2), label=ORACLE, scalex=False)
    low, high = ([height + sign * half for height, half in zip(heights, halves, strict=True)] for sign in (-1, 1))
    axes.fill_between(places, low, high, color=INK, alpha=0.12, linewidth=0)


def finding(*files: Sequence[Row]) -> str:
    """Returns a sentence with the ring's kNN gains at low and at other temperatures.

    Raises:
        ValueError: as `law`.
    """
    rows = [ring.row for ring in _rings(files)]
    temperatures = numbers(rows, "value")
    cold = [row for row, temperature in zip(rows, temperatures, strict=True) if temperature < ONE]
    warm = [row for row, temperature in zip(rows, temperatures, strict=True) if temperature >= ONE]
    parts = [
        f"at temperatures {where} {ONE:g}, {_in_words(some)}"
        for where, some in (("from", warm), ("below", cold))
        if some
    ]
    return f"Rings of IR and MoCo against uniform negatives, by kNN: {'; '.join(parts)}"


def point_sets(
    real: Iterable[Sequence[Row]], controls: Mapping[str, Sequence[Row]]
) -> dict[tuple[str, str], list[Point]]:
    """Returns points of the rings in the law's own files and in the controls that have run, by the names of the set.

    The names are the rings, and the temperature of a point of HCL: t, or the temperature of its negatives.

    Raises:
        ValueError: as `law`.
    """
    law_points, own, negatives, hcl = _ring_points(real), [], [], []
    for file, rows in controls.items():
        rings, part = _rings([rows]), CONTROLS[file]
        ring_rows = [ring.row for ring in rings]
        own += _at_temperatures(rings, part.temperatures(ring_rows))
        negatives += (at_negatives := _at_temperatures(rings, part.negative_temperatures(ring_rows)))
        hcl += at_negatives if part.hcl else []
    sets = {("law", T): law_points}
    if own:
        sets |= {
            ("law and controls", T): [*law_points, *own],
            ("law and controls", NEGATIVES): [*law_points, *negatives],
            ("controls", NEGATIVES): negatives,
            ("controls with HCL", NEGATIVES): hcl,
            (f"law and controls at {ONE:g}", T): [one for one in (*law_points, *own) if one.temperature == ONE],
        }
    return sets


def _ring_points(files: Iterable[Sequence[Row]]) -> list[Point]:
    """Returns the points of the rings, with the sweep's value as temperature."""
    rings = _rings(files)
    return _at_temperatures(rings, numbers([ring.row for ring in rings], "value"))


def _at_temperatures(rings: Sequence[LawGain], temperatures: Sequence[float]) -> list[Point]:
    gains = numbers([ring.row for ring in rings], "knn_gain_percent")
    return [*map(Point, gains, [ring.weight_percent for ring in rings], temperatures)]


def _rings(files: Iterable[Sequence[Row]]) -> list[LawGain]:
    return [gain for rows in files for gain in sampler_gains(rows) if gain.row["series"] == "ring"]


def sampler_gains(rows: Sequence[Row]) -> Iterator[LawGain]:
    """Returns the rows of samplers with the weight of their base.

    Raises:
        ValueError: when a column or a base is missing.
    """
    for value, group in group_by(rows, "value").items():
        bases = [row for row in group if row["series"] == BASE]
        if not bases:
            raise ValueError(f"has no series {BASE!r} at {value}")
        own = all(row.get(GRADIENT) for row in bases)  # HCL's; of InfoNCE the share is the softmax weight
        (weight,) = numbers(bases, GRADIENT if own else WEIGHT)
        yield from (LawGain(weight, row) for row in group if row["series"] != BASE)


def _draw_points(axes: Axes, series: Mapping[str, Sequence[tuple[float, Row]]], evaluation: str) -> None:
    middle = (len(series) - 1) / 2
    for place, (name, look) in enumerate(looks(series).items()):
        across, rows = zip(*series[name], strict=True)
        heights = numbers(rows, f"{evaluation}_gain_percent")
        bars = [optional(row, f"{evaluation}_gain_interval_percent") or 0.0 for row in rows]
        look = look | {"linestyle": "", "label": plain(name)}
        places = [value * APART ** (place - middle) for value in across]
        axes.errorbar(places, heights, bars, capsize=2, elinewidth=0.7, **look)


def _in_words(rows: Sequence[Row]) -> str:
    gains = numbers(rows, "knn_gain_percent")
    words = [str(row["knn_verdict"]) for row in rows]
    least, most = (f"{value:+.1f}" for value in (min(gains), max(gains)))
    counts = [f"{words.count(word)} {word}" for word in SIGNIFICANT if word in words]
    return f"{least} to {most} points ({', '.join(counts) or 'all within noise'}, of {len(rows)})"
