"""Networks trained on views that share digit, background or position -> tables of their errors in each factor."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.device.device import pick_device
from annulus.files.results import write_table
from annulus.running.checkpoint import hash_files
from annulus.running.workers import ResumableTasks
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.moving_digits.digit_rows import evaluate_sharing, names, pairs, rows
from annulus_lab.studies.moving_digits.digits_params import FACTORS, DigitsTrainingParams

PATHS = ["images", "table", "pairs"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seeds = filled(DigitsTrainingParams, settings["training"]), settings["seeds"]
    inputs = {"images": paths.images, "content": hash_files(paths.images), "test_seed": seeds[0]}
    training = settings["training"] | {"sharings": [[FACTORS[0]]]}  # the other sharings change no row
    shared = {"world": settings["world"], "training": training} | inputs
    tasks = ResumableTasks("moving_digits", evaluate_sharing, pick_device())
    outcomes = tasks.run({(name, seed): shared for name in names(params) for seed in seeds})
    by_sharing = {name: {seed: outcomes[name, seed] for seed in seeds} for name in names(params)}
    write_table(paths.table, [row | {"scale": settings["scale"]} for row in rows(by_sharing, params)])
    differences = [row | {"scale": settings["scale"]} for row in pairs(by_sharing, params)]
    write_table(paths.pairs, differences, columns=["sharing", "over", "digit_gain_percent"])
    return Results({}, written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
