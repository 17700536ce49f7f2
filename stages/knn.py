"""kNN: features of each seed -> accuracy of the nearest training images' labels on the test images."""

import argparse
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from annulus.device.device import pick_device
from annulus.encoders.features import load_features
from annulus.evals.knn import KnnOutcome, evaluate_knn
from annulus.files.right import by_number, write_right
from annulus.pipeline.stage import Results, run_stage
from annulus.running.workers import map_seeds

READS = ["seeds", "knn"]
PATHS = ["features", "metrics", "right"]

log = logging.getLogger("annulus")


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    if not load_features(paths.features / str(params["seeds"][0]), "train").classes:
        log.info("the images have no class, so no accuracy of kNN is measured")
        write_right(paths.right, {})
        return Results.of_seeds({seed: {} for seed in params["seeds"]})
    results = map_seeds(partial(evaluate, params, paths), params["seeds"], pick_device())
    write_right(paths.right, by_number({seed: result.right for seed, result in results.items()}))
    return Results.of_seeds({seed: result.metrics for seed, result in results.items()})


def evaluate(params: Mapping[str, Any], paths: argparse.Namespace, seed: int) -> KnnOutcome:
    """One seed's test images against its training images."""
    train, test = (load_features(paths.features / str(seed), split) for split in ("train", "test"))
    return evaluate_knn(train, test, params["knn"])


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
