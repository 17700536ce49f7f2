"""Scenes of a task and all encoders -> mean IoU of a decoder of each variant and seed, gains, and a picture."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.evals.mask_pictures import predicted_sheet
from annulus.files.results import write_bytes
from annulus.files.sheets import png
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.detected import metrics_row
from annulus_lab.studies.detection.detection_tables import VARIANTS
from annulus_lab.studies.detection.detector_runs import SHOWN, run_encoders
from annulus_lab.studies.detection.semantic import evaluate_segmentation, semantic

PATHS = ["scenes", "main", "uniform", "untrained", "metrics", "pictures"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seeds, encoders = settings["seeds"], {name: getattr(paths, name) for name in VARIANTS}
    test, results, tasks = run_encoders("segments", settings, paths.scenes, encoders, evaluate_segmentation)
    pictured = semantic(replace(test, pictures=test.pictures[:SHOWN]), settings["segments"]["side"])
    predicted = {variant: runs[seeds[0]]["predicted"] for variant, runs in results.items()}
    write_bytes(paths.pictures, png(predicted_sheet(pictured, predicted).quantize(64)))
    own = {name: settings[name] for name in ("task", "configuration", "engine", "scale")}
    counts = {"seeds": len(seeds), "test_pictures": len(test.pictures)}
    return Results(own | counts | metrics_row(results), written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
