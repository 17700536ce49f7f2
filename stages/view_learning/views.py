"""Encoders trained on each generator's views: images -> accuracy and shared information beside the raw channels."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annulus.files.results import write_table
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.shared.outcomes import metrics_row, pair
from annulus_lab.studies.shared.runs import Trials, build_trial, load_splits

PATHS = ["images", "generators", "points", "pairs"]

COLUMNS = ("table", "space", "learns", "changes", "volume_preserving", "backbone")


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seeds, pairs = settings["seeds"], settings["held_out_pairs"]
    points = {(point["series"], point["backbone"]): point for point in settings["points"]}
    variants = {
        (key, seed): build_trial(point["run"], seed, pairs, _file(paths.generators, point["generator"], seed))
        for key, point in points.items()
        for seed in seeds
    }
    outcomes = Trials(load_splits(paths.images)).run(variants)
    by_point = {key: {seed: outcomes[key, seed] for seed in seeds} for key in points}
    write_table(
        paths.points,
        [
            {name: point[name] for name in COLUMNS}
            | metrics_row((point["series"], None), by_point[key], by_point[f"raw-{point['space']}", point["backbone"]])
            | {"scale": settings["scale"]}
            for key, point in points.items()
        ],
    )
    write_table(
        paths.pairs,
        [
            pair(point, base, by_point[point, backbone], by_point[base, backbone])
            | {"backbone": backbone, "scale": settings["scale"]}
            for point, bases in settings["pairs"].items()
            for base in bases
            for backbone in dict.fromkeys(backbone for _, backbone in points)
        ],
        columns=["series", "base", "gain_percent"],
    )
    return Results({})


def _file(folder: Path, generator: str | None, seed: int) -> Path | None:
    return None if generator is None else folder / generator / f"{seed}.safetensors"


if __name__ == "__main__":
    run_resolved(main, PATHS)
