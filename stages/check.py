"""Checks params.yaml first, and writes a digest of each stage's code: when it changes, DVC runs the stage again."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annulus.files.results import write_text
from annulus_lab.config.file import load_params
from annulus_lab.config.resolved import SELECTORS
from annulus_lab.pipeline.edited import STAGES, main_code
from annulus_lab.pipeline.revision import workspace
from annulus_lab.pipeline.stage import Results, run_stage
from annulus_lab.pipeline.stale import read_yaml

READS = [*SELECTORS, "seeds", "knn", "linear", "map"]
PATHS = ["code"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params["map"].check_installed()
    everything, stages = load_params(paths.params), read_yaml(workspace(Path()), "dvc.yaml")["stages"]
    for name, stage in stages.items():
        if name != "check":
            code = main_code(STAGES / f"{name}.py", everything, stage.get("params", []))
            write_text(paths.code / name, f"{code}\n")
    return Results({})


if __name__ == "__main__":
    run_stage(main, READS, PATHS, tracked=False)
