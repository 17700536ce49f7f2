"""Check params.yaml first: DVC deletes a stage's metrics before it looks for the parameters that the stage names."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.config.resolved import SELECTORS
from annulus.files.results import write_text
from annulus.pipeline.stage import Results, run_stage

READS = [*SELECTORS, "seeds", "knn", "linear", "map"]
PATHS = ["checked"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params["map"].check_installed()
    write_text(paths.checked, "params.yaml is right\n")  # always the same, so that nothing runs again because of it
    return Results({})


if __name__ == "__main__":
    run_stage(main, READS, PATHS, tracked=False)
