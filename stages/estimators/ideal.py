"""Every bound with the ideal critic, over the true information, without training."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_table
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.estimators.estimators_params import IdealParams
from annulus_lab.studies.estimators.ideal import at_level

PATHS = ["points"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seed = filled(IdealParams, settings["params"]), settings["seeds"][0]
    rows = [row for nats in params.information for row in at_level(nats, params, seed)]
    write_table(paths.points, [row | {"scale": settings["scale"]} for row in rows])
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
