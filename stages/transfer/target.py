"""One target: its images and all encoders -> accuracies of the linear probe and of few-shot episodes, and gains."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.device.device import pick_device
from annulus.running.checkpoint import hash_encoder, hash_files
from annulus.running.workers import ResumableTasks
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.transfer.classes import test_classes
from annulus_lab.studies.transfer.probed import evaluate_transfer, metrics_row, target_splits
from annulus_lab.studies.transfer.target_tables import MAIN

PATHS = ["images", "main", "uniform", "untrained", "metrics"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    seeds, encoders = settings["seeds"], {name: getattr(paths, name) for name in (MAIN, "uniform", "untrained")}
    train, test = target_splits(paths.images)  # before the workers are forked
    # The class splits are read here, so that they enter the key of the results.
    classes = test_classes(settings["target"], test.classes, settings["few_shot"]["class_splits"])
    shared = {name: settings[name] for name in ("target", "probe", "few_shot")}
    shared |= {"images": paths.images, "content": hash_files(paths.images)}
    shared |= {"episodes_seed": seeds[0], "episode_classes": classes}
    tasks = ResumableTasks("transfer", evaluate_transfer, pick_device())
    files = {(variant, seed): encoders[variant] / f"{seed}.safetensors" for variant in encoders for seed in seeds}
    outcomes = tasks.run({key: shared | {"encoder": file, "hash": hash_encoder(file)} for key, file in files.items()})
    right = {variant: {seed: outcomes[variant, seed] for seed in seeds} for variant in encoders}
    counts = {"classes": len(test.classes), "train_images": len(train), "test_images": len(test)}
    few = {name: settings["few_shot"][name] for name in ("ways", "shots", "queries", "episodes", "classifier")}
    own = {"target": settings["target"], "scale": settings["scale"], "seeds": len(seeds)}
    return Results(own | counts | few | metrics_row(right), written=tasks.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
