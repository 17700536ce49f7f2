"""Embed: images and the frozen encoder of each seed -> features of every split, made once for all probes.

Without classes also the shares of crops whose nearest neighbour is another crop of the same image.
"""

import argparse
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from annulus.device.device import pick_device
from annulus.encoders.extract import extract
from annulus.encoders.features import SPLITS, save_features
from annulus.encoders.saved import load_encoder
from annulus.evals.crops import unseen_crop_retrieval
from annulus.files.images import load_images
from annulus.files.results import Metrics, write_metrics
from annulus.running import progress
from annulus.running.workers import map_seeds
from annulus_lab.pipeline.stage import Results, run_stage

READS = ["seeds", "linear.inputs", "linear.layer"]
PATHS = ["images", "encoders", "features"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    layers = ["pooled", "embedding"]
    # Maps are large: they are written only if the linear probe reads them.
    if (params["linear.inputs"], params["linear.layer"]) == ("features", "map"):
        layers.append("map")
    return Results.by_seed(map_seeds(partial(embed, paths, layers), params["seeds"], pick_device()))


def embed(paths: argparse.Namespace, layers: list[str], seed: int) -> Metrics:
    """Writes the features of one seed's encoder, and without classes its crop retrieval."""
    encoder, device = load_encoder(paths.encoders / f"{seed}.safetensors"), pick_device()
    count, started, sets = 0, time.monotonic(), {}
    for split in SPLITS:
        images = load_images(paths.images / f"{split}.safetensors")
        images = images.labelled() if images.classes else images
        features = extract(encoder, images, layers, device)
        count += len(images)
        save_features(paths.features / str(seed), split, features)
        sets[split] = images
    if not sets["train"].classes:
        retrieved = unseen_crop_retrieval(encoder, sets["train"], sets["test"], layers, device, seed)
        write_metrics(paths.features / str(seed) / "crops.json", retrieved)
    progress.say(f"{count:,} images embedded, {count / (time.monotonic() - started):,.0f} images/s")
    return {f"{name}_dim": values[0].numel() for name, values in features.layers.items()}


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
