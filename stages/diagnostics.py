"""Diagnostics: each seed's snapshots, labels -> measures of embeddings and negatives over training, and pictures."""

import argparse
from collections.abc import Mapping
from functools import partial
from typing import Any

from annulus.datasets.parts import read_names
from annulus.device.rng import generator
from annulus.diagnostics.curve import read_curve
from annulus.diagnostics.examples import nearest_images, picked_negatives
from annulus.diagnostics.maps import map_svg
from annulus.diagnostics.measures import load_run, over_training
from annulus.diagnostics.membership import cave_for
from annulus.diagnostics.neighbours import neighbours_sheet
from annulus.encoders.features import load_features
from annulus.errors import InputError
from annulus.files.images import load_images
from annulus.files.packed import write_packed
from annulus.files.results import Metrics, write_bytes, write_text
from annulus.files.sheets import png
from annulus.running.workers import map_seeds
from annulus_lab.pipeline.stage import Results, run_stage

SAMPLERS = ["uniform", "ball", "ring", "cave"]  # their candidate sets are measured beside the selected sampler's
TEMPERATURE = "methods.${method}.temperature"
READS = [
    "seeds",
    "sampler",
    *(f"samplers.{name}" for name in SAMPLERS),
    "samplers.${sampler}",
    TEMPERATURE,
    "knn.layer",
    "map",
]
PATHS = ["images", "snapshots", "features", "curve", "examples", "neighbours", "map", "metrics", "history"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    results = map_seeds(partial(diagnose, params, paths), params["seeds"])
    metrics, histories = ({seed: result[place] for seed, result in results.items()} for place in (0, 1))
    return Results.by_seed(metrics, histories)


def diagnose(params: Mapping[str, Any], paths: argparse.Namespace, seed: int) -> tuple[Metrics, list[Metrics]]:
    """Computes one seed's numbers over training; the first seed also writes pictures."""
    snapshots = paths.snapshots / f"{seed}.safetensors"
    train, run = load_images(paths.images / "train.safetensors"), load_run(snapshots, params[TEMPERATURE])
    if run.train_images != len(train):
        raise InputError(
            f"{snapshots} is of {run.train_images} training images, {paths.images} holds {len(train)}; run `dvc repro`"
        )
    labels, samplers = train.labels[run.images], {name: params[f"samplers.{name}"] for name in SAMPLERS}
    samplers |= {params["sampler"]: params["samplers.${sampler}"]}
    samplers["cave"] = cave_for(samplers["cave"], len(run.images), len(train))
    curve = read_curve(paths.curve, seed)
    history, sets = over_training(run, curve, labels, samplers, params["sampler"], seed)
    if seed == params["seeds"][0]:
        features = [load_features(paths.features / str(seed), split) for split in ("train", "test")]
        examples = nearest_images(*features, params["knn.layer"], seed)
        images = train, load_images(paths.images / "test.safetensors")
        names = read_names(paths.images)
        write_bytes(paths.neighbours, png(neighbours_sheet(*images, *examples.values(), names)))
        layers = [split_features.layer(params["knn.layer"]) for split_features in features]
        parts = list(zip(images, layers, strict=True))
        write_text(paths.map, map_svg(parts, params["map"], generator(seed, "map")))
        examples |= picked_negatives(
            sets, samplers, labels, images=run.images, query_images=run.query_images, seed=seed
        )
        write_packed(paths.examples, examples, {"layer": params["knn.layer"], "epoch": history[-1]["epoch"]})
    counts = {"images": len(labels), "queries": len(run.query_images), "snapshots": len(history)}
    return history[-1] | counts | {"cave_clusters": samplers["cave"].clustering.clusters}, history


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
