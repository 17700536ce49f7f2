"""One further encoder on all tasks: scenes and the encoder -> average precision of each seed and draw of pictures."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.detector_runs import detector_state, evaluate_detector, run_encoders
from annulus_lab.studies.detection.further import write_runs

PATHS = ["scenes", "encoder", "runs"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    encoders, runs, trained = {"encoder": paths.encoder}, {}, []
    for name, task in settings["tasks"].items():
        _, results, tasks = run_encoders(
            "detection", task, paths.scenes / name, encoders, evaluate_detector, detector_state
        )
        runs[name] = results["encoder"]
        trained.append(tasks)
    write_runs(paths.runs, runs)
    return Results({}, written=lambda: [tasks.done() for tasks in trained])


if __name__ == "__main__":
    run_resolved(main, PATHS)
