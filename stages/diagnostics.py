"""Diagnostics: snapshots, features, labels -> what embeddings and negatives look like over training, and examples."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.diagnostics.curve import read_curve
from annulus.diagnostics.examples import nearest_images, picked_negatives
from annulus.diagnostics.measures import load_run, over_training
from annulus.diagnostics.membership import cave_for
from annulus.encoders.features import load_features
from annulus.errors import InputError
from annulus.files.images import load_images
from annulus.files.packed import write_packed
from annulus.negatives.build import build_sampler
from annulus.pipeline.stage import Results, run_stage

READS = ["seed", "sampler", "samplers", "knn.layer"]
PATHS = ["images", "snapshots", "features", "curve", "examples", "metrics", "history"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    train, run, seed = load_images(paths.images / "train.safetensors"), load_run(paths.snapshots), params["seed"]
    if run.train_images != len(train):
        raise InputError(
            f"{paths.snapshots} is of {run.train_images} training images, {paths.images} holds {len(train)}; "
            "run `dvc repro`"
        )
    labels, samplers = train.labels[run.images], {name: build_sampler(one) for name, one in params["samplers"]}
    samplers["cave"] = cave_for(samplers["cave"], len(run.images), len(train))
    history, sets = over_training(run, read_curve(paths.curve), labels, samplers, params["sampler"], seed)

    features = (load_features(paths.features, split) for split in ("train", "test"))
    examples = nearest_images(*features, params["knn.layer"], seed)
    examples |= picked_negatives(sets, samplers, labels, images=run.images, query_images=run.query_images, seed=seed)
    write_packed(paths.examples, examples, {"layer": params["knn.layer"], "epoch": history[-1]["epoch"]})
    counts = {"images": len(labels), "queries": len(run.query_images), "snapshots": len(history)}
    return Results(
        history[-1] | counts | {"cave_clusters": samplers["cave"].clustering.clusters, "seed": seed}, history
    )


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
