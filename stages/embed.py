"""Embed: images and a frozen encoder -> features of every split, made once for all probes."""

import argparse
import logging
import time
from collections.abc import Mapping
from typing import Any

from annulus.compute.device import pick_device
from annulus.encoders.encoder import load_encoder
from annulus.encoders.extract import extract
from annulus.encoders.features import SPLITS, save_features
from annulus.files.images import load_images
from annulus.pipeline.stage import Results, run_stage

READS = ["linear.inputs", "linear.layer"]
PATHS = ["images", "encoder", "features"]

log = logging.getLogger("annulus")


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    layers = ["pooled", "embedding"]
    # Maps are large: only where the linear probe reads them from here.
    if (params["linear.inputs"], params["linear.layer"]) == ("features", "map"):
        layers.append("map")
    encoder, device = load_encoder(paths.encoder), pick_device()
    for split in SPLITS:
        images, started = load_images(paths.images / f"{split}.safetensors"), time.monotonic()
        features = extract(encoder, images, layers, device)
        speed = len(images) / (time.monotonic() - started)
        log.info("embed: %s, %d images, %.0f images/s", split, len(images), speed)
        save_features(paths.features, split, features)
    return Results({f"{name}_dim": values[0].numel() for name, values in features.layers.items()})


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
