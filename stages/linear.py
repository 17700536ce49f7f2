"""Linear probe: features of each seed, or images through its encoder -> accuracy, learning curves, confusion table."""

import argparse
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from annulus.device.device import pick_device
from annulus.encoders.encoder import load_encoder
from annulus.encoders.features import SPLITS, load_features
from annulus.evals.accuracy import confusion_rows
from annulus.evals.linear import LinearOutcome, probe_features, probe_views
from annulus.files.images import load_images
from annulus.files.results import write_table
from annulus.files.right import by_number, write_right
from annulus.pipeline.stage import Results, run_stage
from annulus.running import progress
from annulus.running.workers import map_seeds
from annulus.views.splits import keeping_colour

READS = ["seeds", "linear", "view_sets.${views}", "scales.${scale}.linear"]
PATHS = ["images", "encoders", "features", "metrics", "right", "history", "confusion"]

log = logging.getLogger("annulus")


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seeds, test = params["seeds"], load_images(paths.images / "test.safetensors")
    if not test.classes:
        log.info("the images have no class, so no linear probe is trained")
        write_table(paths.confusion, [], ("actual", "predicted"))
        write_right(paths.right, {})
        return Results.of_seeds({seed: {} for seed in seeds})
    results = map_seeds(partial(fit, params, paths), seeds, pick_device())
    # A row an image: the first seed's, since those of all would be a large file and the same picture.
    write_table(paths.confusion, confusion_rows(results[seeds[0]].predicted, test.labels, test.classes))
    write_right(paths.right, by_number({seed: result.right for seed, result in results.items()}))
    metrics = {seed: result.metrics for seed, result in results.items()}
    return Results.of_seeds(metrics, {seed: result.history for seed, result in results.items()})


def fit(params: Mapping[str, Any], paths: argparse.Namespace, seed: int) -> LinearOutcome:
    """Fit one seed's probe."""
    settings = {"params": params["linear"], "scale": params["scales.${scale}.linear"]}
    settings |= {"seed": seed, "device": pick_device()}
    if params["linear"].inputs == "views":
        train, validation, test = (load_images(paths.images / f"{split}.safetensors").labelled() for split in SPLITS)
        encoder = load_encoder(paths.encoders / f"{seed}.safetensors")
        views = keeping_colour(params["view_sets.${views}"], encoder.config.split)
        outcome = probe_views(encoder, train, validation, test, views=views, **settings)
    else:
        train, validation, test = (load_features(paths.features / str(seed), split) for split in SPLITS)
        outcome = probe_features(train, test, validation=validation, **settings)
    progress.say(f"linear {outcome.metrics['top1_percent']:.1f} %")
    return outcome


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
