"""One task and one further encoder: scenes, the encoder and its base -> average precision and gains over the base."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.detection.detector_runs import detector_state, evaluate_detector, run_encoders
from annulus_lab.studies.detection.further import further_row

PATHS = ["scenes", "encoder", "base", "metrics"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    encoders = {"encoder": paths.encoder, "base": paths.base}
    test, results, tasks = run_encoders(
        "detection", settings, paths.scenes, encoders, evaluate_detector, detector_state
    )
    own = {name: settings[name] for name in ("task", "configuration", "engine", "scale")}
    counts = {"seeds": len(settings["seeds"]), "test_pictures": len(test.pictures)}
    return Results(own | counts | further_row(results), written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
