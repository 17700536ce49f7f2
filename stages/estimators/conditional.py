"""NCE and CNCE of the two-dimensional toy: estimates by the share of the points that negatives come from."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.compute.workers import Pieces
from annulus.estimators.conditional import digits, row, trained
from annulus.estimators.params import ConditionalParams
from annulus.estimators.toys import SumOfGaussians
from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved

PATHS = ["points"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seeds = ConditionalParams.model_validate(settings["params"]), settings["seeds"]
    measures = list(params.temperatures)
    pieces = Pieces("conditional", {"params": params, "seeds": seeds}, trained)
    found = dict(zip(measures, pieces.run(measures), strict=True))
    information = digits(SumOfGaussians().information)
    settings = {"seeds": len(seeds), "information_nats": information, "scale": settings["scale"]}
    rows = [
        row(measure, percent, *(found[measure][law][place] for law in ("own", "uniform", "training"))) | settings
        for measure in measures
        for place, percent in enumerate(params.percents)
    ]
    write_table(paths.points, rows)
    return Results({}, written=pieces.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
