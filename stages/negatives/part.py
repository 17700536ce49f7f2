"""One part of the study, a grid of runs: the images -> its figure, all its numbers beside its base, its curves."""

import argparse
import json
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved
from annulus.trials.outcomes import by_epoch, by_value, numbers
from annulus.trials.runs import Trials, load_splits, run_of

PATHS = ["images", "points", "figure"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    points = {(point["series"], point["value"]): point for point in settings["points"]}
    # Where a series does not read the swept key, its points are one variant, which runs once.
    first: dict[str, tuple] = {}
    same = {point: first.setdefault(json.dumps(entry["run"]), point) for point, entry in points.items()}
    seeds = settings["seeds"]
    trials = Trials("negatives", load_splits(paths.images))
    outcomes = trials.run(
        {(point, seed): run_of(points[point]["run"], seed) for point in first.values() for seed in seeds}
    )
    of_first = {point: {seed: outcomes[point, seed] for seed in seeds} for point in first.values()}
    runs = {point: of_first[same[point]] for point in points}
    write_table(
        paths.points, [numbers(point, runs[point], runs[tuple(entry["base"])]) for point, entry in points.items()]
    )
    write_table(paths.figure, by_value(runs) if settings["swept"] else by_epoch(runs))
    return Results({}, written=trials.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
