"""InfoNCE and EqCo on correlated Gaussians: estimates after training, beside the truth."""

import argparse
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.config.params import filled
from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_resolved
from annulus.running.workers import ResumableTasks
from annulus.studies.estimators.bounds import eqco
from annulus.studies.estimators.gaussians import estimates, row
from annulus.studies.estimators.params import GaussiansParams, first_of

PATHS = ["points"]

log = logging.getLogger("annulus")


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params = filled(GaussiansParams, settings["params"])
    seeds = first_of(settings["seeds"], params.first_seeds, "gaussians")
    for pairs in params.pairs:
        warning = eqco(params.eqco_alpha).warning(pairs, pairs - 1)
        if warning is not None:
            log.warning("%s", warning)
    tasks = ResumableTasks("gaussians", estimates)
    keys = sorted(((pairs, seed) for pairs in params.pairs for seed in seeds), reverse=True)  # the longest first
    # How many seeds there are, and which other numbers of pairs, changes none.
    results = tasks.run({key: replace(params, pairs=[key[0]], first_seeds=1) for key in keys})
    rows = [
        row(params, method, nats, pairs, [results[pairs, seed]["nats"][method][place] for seed in seeds])
        for place, nats in enumerate(params.information)
        for method in ("InfoNCE", "EqCo")
        for pairs in params.pairs
    ]
    write_table(paths.points, [line | {"seeds": len(seeds), "scale": settings["scale"]} for line in rows])
    return Results({}, written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
