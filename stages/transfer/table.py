"""Metrics and images of all targets that have run -> a table of accuracies, one of gains, and a picture sheet."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.images import load_images
from annulus.files.results import write_bytes, write_table
from annulus.files.sheets import png
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.transfer.sheet import target_sheet
from annulus_lab.studies.transfer.target_tables import (
    accuracies,
    further_accuracies,
    further_gains,
    further_rows,
    gains,
    read_targets,
)

PATHS = ["targets", "images", "table", "gains", "sheet"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    metrics = read_targets(paths.targets, settings["targets"])
    main_line, further = settings["main"], further_rows(list(metrics), paths.targets / "further", settings["further"])
    rows = accuracies(metrics, settings["variants"], main_line) + further_accuracies(further, main_line)
    write_table(paths.table, rows)
    write_table(paths.gains, gains(metrics, settings["variants"], main_line) + further_gains(further, main_line))
    pictures = target_sheet({name: load_images(paths.images / name / "test.safetensors") for name in metrics})
    write_bytes(paths.sheet, png(pictures))
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
