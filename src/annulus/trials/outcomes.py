"""What runs measured: numbers over seeds, and the rows of a study's tables."""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from annulus.files.results import Number

MEASURED = ["nn1_top1_percent", "knn_top1_percent", "linear_top1_percent", "bound_nats", "ceiling_nats"]
SHOWN = "nn1_top1_percent"  # the papers' figures show the nearest neighbour's accuracy

Point = tuple[str, Any]  # a series, and the value that the sweep takes there; None without a sweep


@dataclass(frozen=True)
class Outcome:
    """What one run measured: the last epoch's numbers, and one row per epoch."""

    metrics: dict[str, Number]
    history: list[dict[str, Number]]


def over_seeds(outcomes: Sequence[Mapping[str, Number]], names: Iterable[str]) -> dict[str, Number]:
    """Mean of each number over the seeds, and beside it their standard deviation, `std_over_seeds`; 0 for one seed."""
    found: dict[str, Number] = {"seeds": len(outcomes)}
    for name in names:
        values = [float(metrics[name]) for metrics in outcomes]
        stem, _, unit = name.rpartition("_")
        found[name] = statistics.fmean(values)
        found[f"{stem}_std_over_seeds_{unit}"] = std_over_seeds(values)
    return found


def std_over_seeds(values: Sequence[int | float]) -> float:
    """Standard deviation over seeds; 0 for one seed."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def numbers(point: Point, runs: Sequence[Outcome]) -> dict[str, Number]:
    """Everything measured at a point of a grid, over seeds; the gradient's norm is that of the last epoch."""
    series, value = point
    last = [run.metrics | _gradient(run.history[-1]) for run in runs]
    return {"series": series, "value": "" if value is None else value} | over_seeds(
        last, [*MEASURED, "gradient_mean_norm", "gradient_std_norm"]
    )


def by_value(runs: Mapping[Point, Sequence[Outcome]]) -> list[dict[str, Number]]:
    """The figure of a sweep: accuracy on the test images over the value."""
    return [
        {"series": name, "x": value, SHOWN: _mean([run.metrics[SHOWN] for run in found])}
        for (name, value), found in runs.items()
    ]


def by_epoch(runs: Mapping[Point, Sequence[Outcome]]) -> list[dict[str, Number]]:
    """The figure without a sweep: accuracy on the validation part over the epochs."""
    return [
        {"series": name, "x": epoch + 1, SHOWN: _mean([run.history[epoch]["validation_nn1_percent"] for run in found])}
        for (name, _), found in runs.items()
        for epoch in range(len(found[0].history))
    ]


def _gradient(row: Mapping[str, Number]) -> dict[str, Number]:
    return {"gradient_mean_norm": row["gradient_norm"], "gradient_std_norm": row["gradient_norm_std"]}


def _mean(values: Sequence[Number]) -> float:
    return round(statistics.fmean(float(value) for value in values), 2)
