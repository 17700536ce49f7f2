"""Pretrain one encoder: packed training images -> encoder weights, snapshots, learning curve, metrics."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.compute.device import pick_device
from annulus.compute.distributed import process_group, rank, relaunch
from annulus.config.resolved import PRETRAIN
from annulus.encoders.encoder import save_encoder
from annulus.files.images import load_images
from annulus.pipeline.checkpoint import Checkpoint, hash_code, hash_files
from annulus.pipeline.stage import Results, run_stage
from annulus.training.setup import build_training
from annulus.training.snapshots import Snapshots

READS = ["seed", *PRETRAIN]
PATHS = ["images", "encoder", "snapshots", "metrics", "history"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    with process_group():
        device = pick_device()
        images = load_images(paths.images / "train.safetensors")
        training = build_training(params, images, load_images(paths.images / "validation.safetensors"), device)
        if rank() > 0:  # one process keeps the state and writes the results
            training.run()
            raise SystemExit
        recipe = training.recipe
        training.snapshots = Snapshots(images, recipe.views, recipe.scale.epochs, recipe.seed, device)
        key = {"params": params, "images": hash_files(paths.images), "code": hash_code(), "device": device.type}
        with Checkpoint("pretrain", key) as checkpoint:
            history = training.run(checkpoint)
            save_encoder(training.method.encoder, paths.encoder)
            training.snapshots.write(paths.snapshots, training.method)
    return Results(training.metrics(), history, written=checkpoint.done)


if __name__ == "__main__":
    relaunch()
    run_stage(main, READS, PATHS)
