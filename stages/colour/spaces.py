"""CMC in each colour space: the images -> shared information of the channels, linear probe and mean IoU per space."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.evals.segmentation_settings import SegmentationSettings
from annulus.files.results import write_table
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.shared.outcomes import metrics_row
from annulus_lab.studies.shared.runs import Trials, build_trial, load_splits
from annulus_lab.studies.shared.segments import Segments

PATHS = ["labelled", "segmented", "spaces"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    segments = Segments.from_folder(paths.segmented, filled(SegmentationSettings, settings["decoder"]))
    runs = {
        (point["space"], seed): build_trial(point["run"], seed, settings["held_out_pairs"], segments=segments)
        for point in settings["points"]
        for seed in settings["seeds"]
    }
    outcomes = Trials(load_splits(paths.labelled)).run(runs)
    by_space = {
        point["space"]: {seed: outcomes[point["space"], seed] for seed in settings["seeds"]}
        for point in settings["points"]
    }
    base = next(iter(by_space.values()))
    rows = [
        metrics_row((space, None), seed_runs, base) | {"scale": settings["scale"]}
        for space, seed_runs in by_space.items()
    ]
    write_table(paths.spaces, rows)
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
