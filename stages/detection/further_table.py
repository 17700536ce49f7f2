"""Runs of further encoders -> tables of average precision, and of gains over each encoder's bases."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_table
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.further import gain_rows, precision_rows, runs_of_encoders

PATHS = ["runs", "table", "gains"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    encoders, tasks = settings["encoders"], settings["tasks"]
    runs = runs_of_encoders(paths.runs, encoders)
    with_runs = [(one, runs[one["encoder"]]) for one in encoders if one["encoder"] in runs]
    write_table(paths.table, [row for one, own in with_runs for row in precision_rows(tasks, one, own)])
    gains = [
        row for one, own in with_runs for base in one["bases"] for row in gain_rows(tasks, one, base, own, runs[base])
    ]
    write_table(paths.gains, gains, ("task", "encoder", "base"))
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
