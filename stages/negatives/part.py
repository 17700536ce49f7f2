"""One part of the study, a grid of runs: the study's images -> its figure, all its numbers, its curves."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved
from annulus.trials.outcomes import by_epoch, by_value, numbers
from annulus.trials.runs import Trials, load_splits, run_of

PATHS = ["images", "points", "figure"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    grid = {(point["series"], point["value"]): point["run"] for point in settings["points"]}
    variants = {(point, seed): run_of(run, seed) for point, run in grid.items() for seed in settings["seeds"]}
    trials = Trials("negatives", load_splits(paths.images))
    outcomes = trials.run(variants)
    runs = {point: [outcomes[point, seed] for seed in settings["seeds"]] for point in grid}
    write_table(paths.points, [numbers(point, found) for point, found in runs.items()])
    write_table(paths.figure, by_value(runs) if settings["swept"] else by_epoch(runs))
    return Results({}, written=trials.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
