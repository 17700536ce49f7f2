"""Runs of all encoders on one target, several at a time."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annulus.device.device import pick_device
from annulus.files.results import Number
from annulus.running.checkpoint import hash_encoder, hash_files
from annulus.running.workers import ResumableTasks
from annulus_lab.studies.transfer.classes import test_classes
from annulus_lab.studies.transfer.probed import RightParts, evaluate_transfer, target_splits


def run_target(
    settings: Mapping[str, Any], images: Path, encoders: Mapping[str, Path]
) -> tuple[RightParts, dict[str, Number], ResumableTasks]:
    """Right parts of each encoder's seeds on a target, its counts, and the tasks.

    `encoders`: the folder of SEED.safetensors by name. Call the tasks' `done` after the results are written.
    """
    seeds = settings["seeds"]
    train, test = target_splits(images)  # before the workers are forked
    # The class splits are read here, so that they enter the key of the results.
    classes = test_classes(settings["target"], test.classes, settings["few_shot"]["class_splits"])
    shared = {name: settings[name] for name in ("target", "probe", "few_shot")}
    shared |= {"images": images, "content": hash_files(images)}
    shared |= {"episodes_seed": seeds[0], "episode_classes": classes}
    tasks = ResumableTasks("transfer", evaluate_transfer, pick_device())
    files = {(variant, seed): encoders[variant] / f"{seed}.safetensors" for variant in encoders for seed in seeds}
    outcomes = tasks.run({key: shared | {"encoder": file, "hash": hash_encoder(file)} for key, file in files.items()})
    right = {variant: {seed: outcomes[variant, seed] for seed in seeds} for variant in encoders}
    few = {name: settings["few_shot"][name] for name in ("ways", "shots", "queries", "episodes", "classifier")}
    own = {"target": settings["target"], "scale": settings["scale"], "seeds": len(seeds)}
    counts = {"classes": len(test.classes), "train_images": len(train), "test_images": len(test)}
    return right, own | counts | few, tasks
