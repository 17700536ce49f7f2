"""One target: its images and all encoders -> accuracies of the linear probe and of few-shot episodes, and gains."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.transfer.probed import metrics_row
from annulus_lab.studies.transfer.target_runs import run_target
from annulus_lab.studies.transfer.target_tables import MAIN

PATHS = ["images", "main", "uniform", "untrained", "metrics"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    encoders = {name: getattr(paths, name) for name in (MAIN, "uniform", "untrained")}
    right, counts, tasks = run_target(settings, paths.images, encoders)
    return Results(counts | metrics_row(right), written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
