"""The binary example: alpha-CPC and alpha-ML-CPC over m in closed form, and the same by simulation."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.config.params import filled
from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved
from annulus.studies.estimators.binary import batch_rows
from annulus.studies.estimators.params import BinaryParams

PATHS = ["points"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seed = filled(BinaryParams, settings["params"]), settings["seeds"][0]
    write_table(paths.points, [row for m in params.candidates for row in batch_rows(m, params, seed)])
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
