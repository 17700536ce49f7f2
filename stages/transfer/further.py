"""One further encoder on all targets: images, the encoder and its base -> accuracies, and gains over the base."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.transfer.probed import further_row
from annulus_lab.studies.transfer.target_runs import run_target

PATHS = ["images", "encoder", "base", "metrics"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    encoders, rows, runs = {"encoder": paths.encoder, "base": paths.base}, {}, []
    for target in settings["targets"]:
        right, counts, tasks = run_target(settings | {"target": target}, paths.images / target, encoders)
        rows[target] = counts | further_row(right)
        runs.append(tasks)
    return Results.by_seed(rows, written=lambda: [tasks.done() for tasks in runs])


if __name__ == "__main__":
    run_resolved(main, PATHS)
