"""CMC in each colour space: the images -> information that the channels share, linear probe and mean IoU per space."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.config.params import filled
from annulus.evals.segmentation import SegmentationSettings
from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved
from annulus.studies.outcomes import metrics_row
from annulus.studies.runs import Trials, load_splits, trial_of
from annulus.studies.segments import Segments

PATHS = ["labelled", "segmented", "spaces"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    segments = Segments.of(paths.segmented, filled(SegmentationSettings, settings["decoder"]))
    runs = {
        (point["space"], seed): trial_of(point["run"], seed, settings["held_out_pairs"], segments=segments)
        for point in settings["points"]
        for seed in settings["seeds"]
    }
    outcomes = Trials(load_splits(paths.labelled)).run(runs)
    of_space = {
        point["space"]: {seed: outcomes[point["space"], seed] for seed in settings["seeds"]}
        for point in settings["points"]
    }
    base = next(iter(of_space.values()))
    rows = [
        metrics_row((space, None), of_seeds, base) | {"scale": settings["scale"]}
        for space, of_seeds in of_space.items()
    ]
    write_table(paths.spaces, rows)
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
