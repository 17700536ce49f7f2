"""Bias and variance of NCE and CNCE over the number of negatives, with a frozen encoder."""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

import torch

from annulus.device.device import described
from annulus.device.rng import generator
from annulus.files.results import write_table
from annulus.running.checkpoint import Checkpoint, let_go
from annulus_lab.config.resolved import values
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.estimators.spread import Spread, spread_over_draws
from annulus_lab.studies.negatives.frozen_encoder_estimates import row, score
from annulus_lab.studies.shared.runs import Trials, build_trial, load_splits

PATHS = ["images", "points"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    torch.set_num_threads(1)  # as the other parts' trials, so that the numbers do not depend on the cores
    trials = Trials(load_splits(paths.images))
    spreads_by_point: dict[tuple[str, int], dict[int, Spread]] = {}
    states = []  # checkpoints of the trainings, until all numbers are written
    for seed in settings["seeds"]:
        trial = build_trial(settings["run"], seed)
        key = {"trial": trial, "images": trials.splits.hashes, "code": trials.code.hashes(trial)}
        training, state = trials.training(trial), Checkpoint("estimates", key, device=described(trials.device))
        with state:
            training.run(state)
        states.append(state)
        scores, self_index = score(training, settings["queries"], seed)
        for name, choice in settings["samplers"].items():
            [sampler] = values(choice, ["samplers.${sampler}"]).values()
            for k in settings["counts"]:
                draws = generator(seed, "estimates", name, k, device=scores.device)
                spreads = spreads_by_point.setdefault((name, k), {})
                spreads[seed] = spread_over_draws(scores, self_index, k, sampler, settings["repeats"], draws)
    rows = [row(*point, spreads) | {"scale": settings["scale"]} for point, spreads in spreads_by_point.items()]
    write_table(paths.points, rows)
    return Results({}, written=partial(let_go, states))


if __name__ == "__main__":
    run_resolved(main, PATHS)
