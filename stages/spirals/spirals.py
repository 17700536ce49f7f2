"""Two spirals seen through noise: shared information of views, accuracy of a linear read-out in the learned plane."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.files.results import write_table
from annulus.running.workers import ResumableTasks
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.spirals.spirals import curve_rows, plane_rows, row, train_spirals
from annulus_lab.studies.spirals.spirals_params import SpiralsParams

PATHS = ["points", "curve", "plane"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seeds = filled(SpiralsParams, settings["params"]), settings["seeds"]
    tasks = ResumableTasks("spirals", train_spirals)
    results = tasks.run({(noise, seed): replace(params, noise=[noise]) for noise in params.noise for seed in seeds})
    by_noise = {noise: {seed: results[noise, seed] for seed in seeds} for noise in params.noise}
    base = by_noise[params.noise[0]]
    write_table(
        paths.points,
        [row(params, noise, runs, base) | {"scale": settings["scale"]} for noise, runs in by_noise.items()],
    )
    write_table(paths.curve, curve_rows(params, by_noise))
    write_table(paths.plane, plane_rows(by_noise))
    return Results({}, written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
