"""A teacher: the study's images -> its weights, and its numbers on the test images."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.device.distributed import process_group, rank
from annulus.files.right import by_number, write_right
from annulus.running.processes import relaunch
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.distillation.classifiers.saved import save_classifier
from annulus_lab.studies.distillation.distillation_runs import ClassifierTask, run_seeds

PATHS = ["images", "teacher", "metrics", "right"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    # All students of all seeds have the teacher of the first seed.
    (seed,) = settings["seeds"]
    with process_group():
        runs, done = run_seeds(ClassifierTask(settings, paths.images), [seed])
        if rank() > 0:  # only the first process writes the results
            raise SystemExit
    classifier, fitted = runs[seed]
    save_classifier(classifier, paths.teacher)
    write_right(paths.right, by_number({seed: fitted.right}))
    return Results.by_seed({seed: fitted.metrics}, written=done)


if __name__ == "__main__":
    relaunch()
    run_resolved(main, PATHS)
