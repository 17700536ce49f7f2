"""InfoNCE and EqCo on correlated Gaussians: estimates after training, beside the truth."""

import argparse
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.files.results import write_table
from annulus.running.workers import ResumableTasks
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.estimators.bounds import eqco
from annulus_lab.studies.estimators.estimators_params import GaussiansParams, first_seeds
from annulus_lab.studies.estimators.gaussians import estimates, row

PATHS = ["points"]

log = logging.getLogger("annulus")


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params = filled(GaussiansParams, settings["params"])
    seeds = first_seeds(settings["seeds"], params.first_seeds, "gaussians")
    for pairs in params.pairs:
        warning = eqco(params.eqco_alpha).warning(pairs, pairs - 1)
        if warning is not None:
            log.warning("%s", warning)
    tasks = ResumableTasks("gaussians", estimates)
    keys = sorted(((pairs, seed) for pairs in params.pairs for seed in seeds), reverse=True)  # the longest first
    # The key has neither the number of seeds nor the other numbers of pairs: they change no result.
    results = tasks.run({key: replace(params, pairs=[key[0]], first_seeds=1) for key in keys})
    rows = [
        row(params, method, nats, pairs, {seed: results[pairs, seed]["nats"][method][place] for seed in seeds})
        for place, nats in enumerate(params.information)
        for method in ("InfoNCE", "EqCo")
        for pairs in params.pairs
    ]
    write_table(paths.points, [line | {"seeds": len(seeds), "scale": settings["scale"]} for line in rows])
    return Results({}, written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
