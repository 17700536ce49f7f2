"""Binary example: alpha-CPC and alpha-ML-CPC over m in closed form and by simulation."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_table
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.estimators.binary import batch_rows
from annulus_lab.studies.estimators.estimators_params import BinaryParams

PATHS = ["points"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seed = filled(BinaryParams, settings["params"]), settings["seeds"][0]
    write_table(paths.points, [row for m in params.candidates for row in batch_rows(m, params, seed)])
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
