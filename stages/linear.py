"""Linear probe: features, or images through the encoder -> accuracy, learning curve, confusion table."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.compute.device import pick_device
from annulus.encoders.encoder import load_encoder
from annulus.encoders.features import SPLITS, load_features
from annulus.evals.accuracy import confusion_rows
from annulus.evals.linear import probe_features, probe_views
from annulus.files.images import load_images
from annulus.files.results import write_table
from annulus.pipeline.stage import Results, run_stage

READS = ["seed", "linear", "view_sets.${views}", "scales.${scale}.linear"]
PATHS = ["images", "encoder", "features", "metrics", "history", "confusion"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    settings = {"params": params["linear"], "scale": params["scales.${scale}.linear"]}
    settings |= {"seed": params["seed"], "device": pick_device()}
    if params["linear"].inputs == "views":
        train, validation, test = (load_images(paths.images / f"{split}.safetensors") for split in SPLITS)
        views, encoder = params["view_sets.${views}"], load_encoder(paths.encoder)
        outcome = probe_views(encoder, train, validation, test, views=views, **settings)
    else:
        train, validation, test = (load_features(paths.features, split) for split in SPLITS)
        outcome = probe_features(train, validation, test, **settings)
    write_table(paths.confusion, confusion_rows(outcome.predicted, test.labels, test.classes))
    return Results({**outcome.metrics, "seed": params["seed"]}, outcome.history)


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
