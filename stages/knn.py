"""kNN: features -> accuracy of the nearest training images' labels on the test images."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.encoders.features import load_features
from annulus.evals.knn import evaluate_knn
from annulus.pipeline.stage import Results, run_stage

READS = ["knn"]
PATHS = ["features", "metrics"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    train, test = load_features(paths.features, "train"), load_features(paths.features, "test")
    return Results(evaluate_knn(train, test, params["knn"]).metrics)


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
