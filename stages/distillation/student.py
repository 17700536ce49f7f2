"""One pair and one loss: the study's images and a teacher -> students of all seeds, and their numbers."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.device.distributed import process_group, rank
from annulus.files.right import by_number, write_right
from annulus.running.processes import relaunch
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.distillation.classifiers.saved import save_classifier
from annulus_lab.studies.distillation.distillation_runs import ClassifierTask, run_seeds

PATHS = ["images", "teacher", "students", "metrics", "right"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    with process_group():
        runs, done = run_seeds(ClassifierTask(settings, paths.images, paths.teacher), settings["seeds"])
        if rank() > 0:  # only the first process writes the results
            raise SystemExit
    for seed, (classifier, _) in runs.items():
        save_classifier(classifier, paths.students / f"{seed}.safetensors")
    write_right(paths.right, by_number({seed: fitted.right for seed, (_, fitted) in runs.items()}))
    return Results.by_seed({seed: fitted.metrics for seed, (_, fitted) in runs.items()}, written=done)


if __name__ == "__main__":
    relaunch()
    run_resolved(main, PATHS)
