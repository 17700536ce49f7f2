"""Metrics of all tasks that have run -> a table of average precision with gains over untrained and uniform."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.errors import InputError
from annulus.files.results import read_metrics, write_table
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.detection_tables import rows

PATHS = ["tasks", "table"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    files = {name: paths.tasks / f"{name}.json" for name in settings["tasks"]}
    metrics = {name: read_metrics(file) for name, file in files.items() if file.exists()}
    if not metrics:
        raise InputError(f"{paths.tasks} holds the numbers of no task; run `dvc repro`")
    write_table(paths.table, list(rows(metrics, settings["main"])))
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
