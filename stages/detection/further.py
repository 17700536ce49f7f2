"""One further encoder: scenes and the encoder -> numbers of all tasks and of segments, for each seed and draw."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.detector_runs import detector_state, evaluate_detector, run_encoders
from annulus_lab.studies.detection.further import write_runs
from annulus_lab.studies.detection.semantic import evaluate_segmentation

PATHS = ["scenes", "encoder", "runs"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    encoders, segments = {"encoder": paths.encoder}, settings["segments"]
    ran = {
        name: run_encoders("detection", task, paths.scenes / name, encoders, evaluate_detector, detector_state)
        for name, task in settings["tasks"].items()
    }
    scenes = paths.scenes / segments["segments"]["task"]
    ran["segments"] = run_encoders("segments", segments, scenes, encoders, evaluate_segmentation)
    write_runs(paths.runs, {name: results["encoder"] for name, (_, results, _) in ran.items()})
    return Results({}, written=lambda: [tasks.done() for _, _, tasks in ran.values()])


if __name__ == "__main__":
    run_resolved(main, PATHS)
