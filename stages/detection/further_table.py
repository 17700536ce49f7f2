"""Runs of further encoders -> a table of average precision with gains over each encoder's base."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.errors import InputError
from annulus.files.results import write_table
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.further import further_rows

PATHS = ["runs", "table"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    rows = list(further_rows(paths.runs, settings["tasks"], settings["encoders"]))
    if not rows:
        raise InputError(f"{paths.runs} holds the runs of no further encoder; run `dvc repro`")
    write_table(paths.table, rows)
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
