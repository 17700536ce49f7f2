"""kNN: features of each seed -> accuracy of the nearest training images' labels on the test images.

Without classes: the shares of crops whose nearest neighbour is another crop of the same image.
"""

import argparse
import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

from annulus.device.device import pick_device
from annulus.encoders.features import load_features
from annulus.evals.knn import KnnOutcome, evaluate_knn
from annulus.files.results import Metrics, read_metrics
from annulus.files.right import by_number, write_right
from annulus.running.workers import map_seeds
from annulus_lab.pipeline.stage import Results, run_stage

READS = ["seeds", "knn"]
PATHS = ["features", "metrics", "right"]

log = logging.getLogger("annulus")


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    if not load_features(paths.features / str(params["seeds"][0]), "train").classes:
        log.info("the images have no class, so kNN measures no accuracy")
        write_right(paths.right, {})
        return Results.by_seed({seed: without_classes(params, paths, seed) for seed in params["seeds"]})
    results = map_seeds(partial(evaluate, params, paths), params["seeds"], pick_device())
    write_right(paths.right, by_number({seed: result.right for seed, result in results.items()}))
    return Results.by_seed({seed: result.metrics for seed, result in results.items()})


def without_classes(params: Mapping[str, Any], paths: argparse.Namespace, seed: int) -> Metrics:
    """Crop retrieval of one seed's encoder, by the layer of kNN, beside pixels and mean colour."""
    crops = read_metrics(paths.features / str(seed) / "crops.json")
    shares = {"": crops[f"{params['knn'].layer}_percent"]}
    shares |= {f"_{name}": crops[f"{name}_percent"] for name in ("pixels", "colour", "chance")}
    return {f"crop_retrieval{name}_percent": share for name, share in shares.items()} | {
        "crop_retrieval_images": crops["images"]
    }


def evaluate(params: Mapping[str, Any], paths: argparse.Namespace, seed: int) -> KnnOutcome:
    """Evaluates kNN of one seed's test images among its training images."""
    train, test = (load_features(paths.features / str(seed), split) for split in ("train", "test"))
    return evaluate_knn(train, test, params["knn"])


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
