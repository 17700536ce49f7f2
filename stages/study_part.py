"""Part of a study, a grid of runs: the images -> its figure, its numbers beside the base, its curves."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_table
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.shared.outcomes import by_epoch, by_value, metrics_row
from annulus_lab.studies.shared.runs import Trial, Trials, build_trial, load_splits

PATHS = ["images", "points", "figure"]


def runs(settings: Mapping[str, Any]) -> dict[tuple, Trial]:
    """Trials of the stage, by point of the grid and seed; `annulus sweep` calls it too."""
    points = {(point["series"], point["value"]): point["run"] for point in settings["points"]}
    measured = {name: settings.get(name) for name in ("held_out_pairs", "closeness_views")}
    return {
        (point, seed): build_trial(run, seed, **measured) for point, run in points.items() for seed in settings["seeds"]
    }


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    outcomes = Trials(load_splits(paths.images)).run(runs(settings))
    points = {(point["series"], point["value"]): point for point in settings["points"]}
    runs_by_point = {point: {seed: outcomes[point, seed] for seed in settings["seeds"]} for point in points}
    table = [
        metrics_row(point, runs_by_point[point], runs_by_point[tuple(entry["base"])]) for point, entry in points.items()
    ]
    figure = by_value(runs_by_point) if settings["swept"] else by_epoch(runs_by_point)
    for path, rows in ((paths.points, table), (paths.figure, figure)):
        write_table(path, [row | {"scale": settings["scale"]} for row in rows])
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
