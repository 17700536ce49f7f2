"""CPC and ML-CPC at several alphas under information that rises in steps: their curves, and each level's end."""

import argparse
import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.device.device import pick_device
from annulus.files.results import write_table
from annulus.running.workers import ResumableTasks
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.estimators.estimators_params import StaircaseParams, first_seeds
from annulus_lab.studies.estimators.staircase import BOUNDS, curve, ends, follow, warnings_for

PATHS = ["curves", "levels"]

log = logging.getLogger("annulus")


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params = filled(StaircaseParams, settings["params"])
    seeds = first_seeds(settings["seeds"], params.first_seeds, f"staircases.{params.critic}")
    for warning in warnings_for(params):
        log.warning("%s", warning)
    one = replace(params, first_seeds=1)  # the number of seeds changes no result
    tasks = ResumableTasks("staircase", follow, pick_device())
    results = tasks.run({(name, seed): one for seed in seeds for name in BOUNDS})
    runs = {
        (name, alpha): {seed: results[name, seed]["nats"][place] for seed in seeds}
        for name in BOUNDS
        for place, alpha in enumerate(params.alphas)
    }
    write_table(paths.curves, [row for key, nats in runs.items() for row in curve(params, *key, nats)])
    levels = [row for key, nats in runs.items() for row in ends(params, *key, nats)]
    write_table(paths.levels, [row | {"seeds": len(seeds), "scale": settings["scale"]} for row in levels])
    return Results({}, written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
