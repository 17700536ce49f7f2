"""A teacher: the study's images -> its weights, and its numbers on the test images."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.device.distributed import process_group, rank
from annulus.files.right import by_number, write_right
from annulus.pipeline.stage import Results, run_resolved
from annulus.running.processes import relaunch
from annulus.studies.distillation.classifiers.saved import save_classifier
from annulus.studies.distillation.runs import Task, run_seeds

PATHS = ["images", "teacher", "metrics", "right"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    # One teacher, of the first seed, for all students and seeds.
    (seed,) = settings["seeds"]
    with process_group():
        runs, done = run_seeds(Task(settings, paths.images), [seed])
        if rank() > 0:  # of several processes, one writes the results
            raise SystemExit
    classifier, fitted = runs[seed]
    save_classifier(classifier, paths.teacher)
    write_right(paths.right, by_number({seed: fitted.right}))
    return Results.of_seeds({seed: fitted.metrics}, written=done)


if __name__ == "__main__":
    relaunch()
    run_resolved(main, PATHS)
