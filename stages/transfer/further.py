"""One target and one further encoder: its images, the encoder and its base -> accuracies and the gain over the base."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.transfer.probed import further_row
from annulus_lab.studies.transfer.target_runs import run_target

PATHS = ["images", "encoder", "base", "metrics"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    right, counts, tasks = run_target(settings, paths.images, {"encoder": paths.encoder, "base": paths.base})
    return Results(counts | further_row(right), written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
