"""Spirals under settings that the paper leaves open: accuracies of each read-out without and with noise."""

import argparse
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from annulus.files.results import write_table
from annulus.running.workers import ResumableTasks
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.spirals.spirals import row, train_spirals
from annulus_lab.studies.spirals.spirals_params import SpiralsParams

PATHS = ["search"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    rows, done = [], []
    for name, own in settings["settings"].items():
        params = filled(SpiralsParams, own)
        tasks = ResumableTasks("spirals", train_spirals)
        results = tasks.run(
            {(noise, seed): replace(params, noise=[noise]) for noise in params.noise for seed in settings["seeds"]}
        )
        by_noise = {noise: {seed: results[noise, seed] for seed in settings["seeds"]} for noise in params.noise}
        base = by_noise[params.noise[0]]
        setting = {"scale": settings["scale"], "iterations": params.iterations}
        rows += [{"series": name} | row(params, noise, runs, base) | setting for noise, runs in by_noise.items()]
        done.append(tasks.done)
    write_table(paths.search, rows)
    return Results({}, written=lambda: [let_go() for let_go in done])


if __name__ == "__main__":
    run_resolved(main, PATHS)
