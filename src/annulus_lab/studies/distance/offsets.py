"""Runs that train on one data set; probes test their frozen features on others."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annulus.device.device import described, pick_device
from annulus.running.checkpoint import Checkpoint, hash_images
from annulus.training.setup import build_training
from annulus_lab.studies.shared.information import check_pairs, held_out
from annulus_lab.studies.shared.runs import build_trial, hash_trial, load_splits, probe


@dataclass(frozen=True)
class OffsetInputs:
    """Inputs that all runs share: the training images, and the image sets of the probes, by name."""

    large: Path
    probes: dict[str, Path]
    held_out_pairs: int  # of the training set's test images
    # Read once: an edit while runs wait for a worker changes no run.
    code: Mapping[str, str] = field(default_factory=hash_trial)

    @property
    def hashes(self) -> dict[str, dict[str, str]]:
        """Hashes of the files of each image set."""
        return {str(folder): hash_images(folder) for folder in (self.large, *self.probes.values())}


def evaluate_offset(settings: Mapping[str, Any], key: tuple[Any, int]) -> Mapping[str, Any]:
    """Trains and probes the run of (offset, seed); returns its results on each image set.

    `settings` has the image sets and the offset's resolved settings.
    """
    (_, seed), sets = key, settings["sets"]
    large, trial = load_splits(sets.large), build_trial(settings["run"], seed)
    check_pairs(sets.held_out_pairs, large.test)
    training = build_training(trial.run, large.train, large.validation, pick_device())
    with training_state(settings, key) as checkpoint:
        history = training.run(checkpoint)
        metrics = training.metrics | held_out(training, large.test, sets.held_out_pairs, seed)
        results = {}
        for name, folder in sets.probes.items():
            accuracies, right = probe(training, load_splits(folder), trial, checkpoint, name)
            results[name] = {"metrics": metrics | accuracies, "history": history, "right": right}
    return results


def training_state(settings: Mapping[str, Any], key: tuple[Any, int]) -> Checkpoint:
    """Checkpoint of a run of `evaluate_offset`."""
    trial = build_trial(settings["run"], key[1])
    content = {"trial": trial, "images": settings["hashes"], "code": settings["sets"].code}
    return Checkpoint("transfer", content, device=described(pick_device()))
