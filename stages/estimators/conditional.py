"""NCE and CNCE of the two-dimensional toy: estimates by the share of the points that give negatives."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.files.results import write_table
from annulus.running.workers import ResumableTasks
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.estimators.conditional import digits, rows, train_variant
from annulus_lab.studies.estimators.estimators_params import ConditionalParams
from annulus_lab.studies.estimators.toys import SumOfGaussians

PATHS = ["points"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params = filled(ConditionalParams, settings["params"])
    tasks = ResumableTasks("conditional", train_variant)
    # One task trains all seeds together.
    estimates = tasks.run({name: replace(params, variants={name: one}) for name, one in params.variants.items()})
    information = digits(SumOfGaussians().information)
    shared = {"seeds": len(params.seeds), "information_nats": information, "scale": settings["scale"]}
    write_table(paths.points, [row | shared for name, nats in estimates.items() for row in rows(name, params, nats)])
    return Results({}, written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
