"""One part of the study, a grid of runs: the study's images -> its figure, all its numbers, its curves."""

import argparse
import statistics
from collections.abc import Mapping
from typing import Any

import _path  # noqa: F401  this checkout's src first

from annulus.config.study import Study
from annulus.files.results import Number, write_table
from annulus.pipeline.stage import Results, run_study
from annulus.trials import Outcome, Trials, load_splits, over_seeds

READS = [
    "datasets",
    "methods",
    "bounds",
    "samplers",
    "anneals",
    "neighbour_sets",
    "view_sets",
    "backbones",
    "optimizer",
    "schedules",
    "knn",
    "linear",
    "scales",
]
OWN = ["scale", "seeds", "defaults", "scales", "parts.${item.part}"]
PATHS = ["images", "points", "figure"]

MEASURED = ["nn1_top1_percent", "knn_top1_percent", "linear_top1_percent", "bound_nats", "ceiling_nats"]
SHOWN = "nn1_top1_percent"  # the papers' figures show the nearest neighbour's accuracy

Point = tuple[str, Any]  # a series, and the value that the sweep takes there; None without a sweep


def main(study: Study, arguments: argparse.Namespace) -> Results:
    part = study.row("parts", arguments.part)
    sweep = part.get("sweep", {"keys": [], "values": [None]})
    grid = {
        (name, value): settings | dict.fromkeys(sweep["keys"], value)
        for name, settings in part["series"].items()
        for value in sweep["values"]
    }
    variants = {
        (point, seed): study.variant(f"parts.{arguments.part}.{point[0]}", settings, seed)
        for point, settings in grid.items()
        for seed in study.params.seeds
    }
    trials = Trials("negatives", load_splits(arguments.images))
    outcomes = trials.run(variants)
    runs = {point: [outcomes[point, seed] for seed in study.params.seeds] for point in grid}
    write_table(arguments.points, [numbers(point, found) for point, found in runs.items()])
    write_table(arguments.figure, by_value(runs) if sweep["keys"] else by_epoch(runs))
    return Results({}, written=trials.done)


def numbers(point: Point, runs: list[Outcome]) -> dict[str, Number]:
    """Everything measured at a point of the grid, over seeds; the gradient's norm is that of the last epoch."""
    series, value = point
    last = [run.metrics | gradient(run.history[-1]) for run in runs]
    return {"series": series, "value": "" if value is None else value} | over_seeds(
        last, [*MEASURED, "gradient_mean_norm", "gradient_std_norm"]
    )


def gradient(row: Mapping[str, Number]) -> dict[str, Number]:
    return {"gradient_mean_norm": row["gradient_norm"], "gradient_std_norm": row["gradient_norm_std"]}


def by_value(runs: Mapping[Point, list[Outcome]]) -> list[dict[str, Number]]:
    """The figure of a sweep: accuracy on the test images over the value."""
    return [
        {"series": name, "x": value, SHOWN: mean([run.metrics[SHOWN] for run in found])}
        for (name, value), found in runs.items()
    ]


def by_epoch(runs: Mapping[Point, list[Outcome]]) -> list[dict[str, Number]]:
    """The figure without a sweep: accuracy on the validation part over the epochs."""
    return [
        {"series": name, "x": epoch + 1, SHOWN: mean([run.history[epoch]["validation_nn1_percent"] for run in found])}
        for (name, _), found in runs.items()
        for epoch in range(len(found[0].history))
    ]


def mean(values: list[Number]) -> float:
    return round(statistics.fmean(float(value) for value in values), 2)


if __name__ == "__main__":
    run_study(main, PATHS, items=["part"])
