"""The figure and the sentence of the law: a sampler's gain over uniform negatives, against how hard those are already.

How hard: the share of the softmax's weight that the closest tenth of the rows hold, for an encoder that was trained on
uniform negatives at the same temperature and count. At 10 % the softmax sees all rows alike, at 100 % only the closest.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from annulus_lab.report.figures.drawing import INK, Row, finish, grouped, looks, numbers, optional, panels, plain
from annulus_lab.report.figures.gains import TOLD
from annulus_lab.report.figures.law_correlations import Point, at_one_temperature, separation


class Control(NamedTuple):
    """What a file's series are called beside law's, and their temperature; HCL's negatives have it over 1 + beta."""

    behind: str
    temperature: float
    hcl: bool = False


# Each file, and what its series are called beside those of IR with the small network.
REAL = {
    "law/ir-256.csv": "",
    "law/ir-1024.csv": "",
    "law/moco.csv": ", MoCo",
    "law/alexnet.csv": ", AlexNet",
    "law/resnet18.csv": ", ResNet-18",
    "law/resnet18-long.csv": ", ResNet-18 for 40 epochs",
    "full_law/ir.csv": ", all images",
    "full_law/ir-long.csv": ", all images for 60 epochs",
    "full_law/moco.csv": ", MoCo, all images",
    "full_law/moco-long.csv": ", MoCo, all images for 60 epochs",
}
CONTROLS = {  # what moves the weight; the temperature; whether the sweep's value is HCL's beta
    "law_controls/hcl-cold.csv": Control(", HCL at 0.1", 0.1, True),
    "law_controls/hcl.csv": Control(", HCL at 0.2", 0.2, True),
    "law_controls/hcl-warm.csv": Control(", HCL at 0.4", 0.4, True),
    "law_controls/hcl-hot.csv": Control(", HCL at 0.8", 0.8, True),
    "law_controls/count.csv": Control(", counts at 0.2", 0.2),
    "law_controls/queue.csv": Control(", bank and queue at 0.2", 0.2),
    "law_controls/dimension.csv": Control(", dimensions at 0.2", 0.2),
}
ONE = 0.2  # temperature of most controls
DRAWN = {"embedded_law/ir-256.csv": "", "embedded_law/moco.csv": ", MoCo"}
BASE = "uniform"
WEIGHT = "hard_weight_percent"
HALF = 50.0  # percent: below, the closest tenth of the rows hold less than half of the weight


class LawGain(NamedTuple):
    """A row beside the row of its base: uniform negatives at the same temperature, in the same file."""

    weight_percent: float
    row: Row


def law(of: Mapping[str, str], *files: Sequence[Row]) -> Figure:
    """Gains of each sampler by kNN and by linear probe, over the weight of the closest tenth under uniform negatives.

    `files`: the rows of each of the files `of`, as of REAL: what its series are called beside.

    Raises:
        ValueError: when a column or a base is not there.
    """
    series: dict[str, list[LawGain]] = {}
    for behind, rows in zip(of.values(), files, strict=True):
        for gain in gains_in(rows):
            series.setdefault(f"{gain.row['series']}{behind}", []).append(gain)
    figure, (left, right) = panels("kNN", "linear probe")
    for axes, evaluation in ((left, "knn"), (right, "linear")):
        finish(axes, "weight of the closest tenth, percent", f"gain over {BASE}, points")
        axes.axhline(0, color=INK, linewidth=0.8)
        _points(axes, series, evaluation)
    figure.legend(*left.get_legend_handles_labels(), loc="outside lower left", ncols=3, columnspacing=1.2)
    return figure


def finding(*files: Sequence[Row]) -> str:
    """The ring's kNN gains where uniform negatives are soft, and where they are hard.

    Raises:
        ValueError: as `law`.
    """
    rings = _rings(files)
    soft = [gain.row for gain in rings if gain.weight_percent < HALF]
    hard = [gain.row for gain in rings if gain.weight_percent >= HALF]
    parts = [
        f"where the closest tenth of the rows {verb} half of the softmax's weight, {_told(rows)}"
        for verb, rows in (("hold less than", soft), ("hold more than", hard))
        if rows
    ]
    return f"Rings against uniform negatives, by kNN: {'; '.join(parts)}"


def explanation(*files: Sequence[Row]) -> str:
    """Rank correlations of the ring's kNN gains with the weight and with the temperature, over the points.

    Raises:
        ValueError: as `law`; or where the points differ too little.
    """
    return f"The rings: {separation(_points_of(files))}"


def with_controls(real: Iterable[Sequence[Row]], controls: Iterable[Sequence[Row]]) -> str:
    """The same with the controls, and the weight's correlation at the temperature of most of them.

    Raises:
        ValueError: as `explanation`.
    """
    of_law, own, own_negatives = _points_of(real), [], []
    for rows, control in zip(controls, CONTROLS.values(), strict=True):
        rings = _rings([rows])
        own += _at_temperatures(rings, [control.temperature] * len(rings))
        betas = numbers([ring.row for ring in rings], "value") if control.hcl else [0.0] * len(rings)
        own_negatives += _at_temperatures(rings, [control.temperature / (1 + beta) for beta in betas])
    at_one = [point for point in (*of_law, *own) if point.temperature == ONE]
    return (
        f"With the controls: {separation([*of_law, *own])}. With the temperature of HCL's negatives, t/(1 + beta): "
        f"{separation([*of_law, *own_negatives])}. The same without law's own points: {separation(own_negatives)}. "
        f"Over the {len(at_one)} points at temperature {ONE:g}, the gain's rank correlation with the weight is "
        f"{at_one_temperature(at_one)}"
    )


def _points_of(files: Iterable[Sequence[Row]]) -> list[Point]:
    """Points of the rings over temperatures."""
    rings = _rings(files)
    return _at_temperatures(rings, numbers([ring.row for ring in rings], "value"))


def _at_temperatures(rings: Sequence[LawGain], temperatures: Sequence[float]) -> list[Point]:
    gains = numbers([ring.row for ring in rings], "knn_gain_percent")
    return [*map(Point, gains, [ring.weight_percent for ring in rings], temperatures)]


def _rings(files: Iterable[Sequence[Row]]) -> list[LawGain]:
    return [gain for rows in files for gain in gains_in(rows) if gain.row["series"] == "ring"]


def gains_in(rows: Sequence[Row]) -> Iterator[LawGain]:
    """Rows of samplers with the weight that their base has.

    Raises:
        ValueError: when a column or a base is not there.
    """
    for value, group in grouped(rows, "value").items():
        bases = [row for row in group if row["series"] == BASE]
        if not bases:
            raise ValueError(f"has no series {BASE!r} at {value}")
        (weight,) = numbers(bases, WEIGHT)
        yield from (LawGain(weight, row) for row in group if row["series"] != BASE)


def _points(axes: Axes, series: Mapping[str, Sequence[LawGain]], evaluation: str) -> None:
    for name, look in looks(series).items():
        rows = [gain.row for gain in series[name]]
        heights = numbers(rows, f"{evaluation}_gain_percent")
        bars = [optional(row, f"{evaluation}_gain_interval_percent") or 0.0 for row in rows]
        look = look | {"linestyle": "", "label": plain(name)}
        axes.errorbar([gain.weight_percent for gain in series[name]], heights, bars, capsize=2, elinewidth=0.7, **look)


def _told(rows: Sequence[Row]) -> str:
    gains = numbers(rows, "knn_gain_percent")
    words = [str(row["knn_verdict"]) for row in rows]
    least, most = (f"{value:+.1f}" for value in (min(gains), max(gains)))
    told = [f"{words.count(word)} {word}" for word in TOLD if word in words]
    return f"{least} to {most} points ({', '.join(told) or 'none told from noise'}, of {len(rows)})"
