"""Embed: images and the frozen encoder of each seed -> features of every split, made once for all probes."""

import argparse
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from annulus.device.device import pick_device
from annulus.encoders.encoder import load_encoder
from annulus.encoders.extract import extract
from annulus.encoders.features import SPLITS, save_features
from annulus.files.images import load_images
from annulus.files.results import Metrics
from annulus.pipeline.stage import Results, run_stage
from annulus.running import progress
from annulus.running.workers import map_seeds

READS = ["seeds", "linear.inputs", "linear.layer"]
PATHS = ["images", "encoders", "features"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    layers = ["pooled", "embedding"]
    # Maps are large: only where the linear probe reads them from here.
    if (params["linear.inputs"], params["linear.layer"]) == ("features", "map"):
        layers.append("map")
    return Results.of_seeds(map_seeds(partial(embed, paths, layers), params["seeds"], pick_device()))


def embed(paths: argparse.Namespace, layers: list[str], seed: int) -> Metrics:
    """Write the features of one seed's encoder."""
    encoder, device = load_encoder(paths.encoders / f"{seed}.safetensors"), pick_device()
    count, started = 0, time.monotonic()
    for split in SPLITS:
        images = load_images(paths.images / f"{split}.safetensors")
        images = images.labelled() if images.classes else images
        features = extract(encoder, images, layers, device)
        count += len(images)
        save_features(paths.features / str(seed), split, features)
    progress.say(f"{count:,} images embedded, {count / (time.monotonic() - started):,.0f} images/s")
    return {f"{name}_dim": values[0].numel() for name, values in features.layers.items()}


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
