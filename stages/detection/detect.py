"""One task: its scenes and all encoders -> average precision of each variant and seed, gains, and a picture."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.files.results import write_bytes
from annulus.files.sheets import png
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.annotated import Detection
from annulus_lab.studies.detection.detected import metrics_row
from annulus_lab.studies.detection.detection_grid import grid
from annulus_lab.studies.detection.detection_tables import VARIANTS
from annulus_lab.studies.detection.detector_runs import SHOWN, detector_state, evaluate_detector, run_encoders

PATHS = ["scenes", "main", "uniform", "untrained", "metrics", "pictures"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seeds, encoders = settings["seeds"], {name: getattr(paths, name) for name in VARIANTS}
    test, results, tasks = run_encoders(
        "detection", settings, paths.scenes, encoders, evaluate_detector, detector_state
    )
    pictured = replace(test, pictures=test.pictures[:SHOWN])
    drawn = {variant: [Detection(**one) for one in runs[seeds[0]]["shown"]] for variant, runs in results.items()}
    write_bytes(paths.pictures, png(grid(pictured, drawn).quantize(64)))  # for git: a sixth of the bytes
    own = {name: settings[name] for name in ("task", "configuration", "engine", "scale")}
    counts = {"seeds": len(seeds), "test_pictures": len(test.pictures)}
    return Results(own | counts | metrics_row(results), written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
