"""One view generator: the training images -> its weights for each seed, and its learning curves."""

import argparse
import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from annulus.device.device import described, pick_device
from annulus.files.images import load_images
from annulus.files.results import write_text
from annulus.running.checkpoint import Checkpoint, hash_files, let_go
from annulus.running.code import hash_code
from annulus.running.workers import map_processes
from annulus.views.learned import save_generator
from annulus_lab.config.params import filled
from annulus_lab.config.resolved import values
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.view_learning import trained as module
from annulus_lab.studies.view_learning.view_learning_params import OPPONENT_KEYS, GeneratorParams, OpponentSettings

PATHS = ["images", "generator"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seen = (
        filled(GeneratorParams, settings["generator"]),
        OpponentSettings(*values(settings["seen"], OPPONENT_KEYS).values()),
    )
    train, device = paths.images / "train.safetensors", pick_device()
    images = load_images(train)
    key = {"generator": params, "seen": seen, "images": hash_files(train), "code": hash_code(Path(module.__file__))}
    kind = described(device)
    checkpoints = {seed: Checkpoint("generator", key | {"seed": seed}, device=kind) for seed in settings["seeds"]}
    make = partial(module.train_or_resume, params, seen, images, checkpoints, device)
    names = [f"seed {seed}" for seed in checkpoints]
    trained_generators = dict(
        zip(checkpoints, map_processes(make, list(checkpoints), names=names, device=device), strict=True)
    )
    for seed, (generator, _) in trained_generators.items():
        save_generator(paths.generator / f"{seed}.safetensors", generator)
    curves = {seed: curve for seed, (_, curve) in trained_generators.items()}
    write_text(paths.generator / "curves.json", json.dumps(curves) + "\n")
    return Results({}, written=partial(let_go, checkpoints.values()))


if __name__ == "__main__":
    run_resolved(main, PATHS)
