"""Teachers and students: one run for each seed; a killed one goes on after its last epoch."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from annulus.config.params import filled
from annulus.device.device import described, pick_device
from annulus.device.distributed import rank
from annulus.files.images import ImageSet, load_images
from annulus.running.checkpoint import Checkpoint, hash_files, let_go
from annulus.running.code import hash_code
from annulus.running.workers import map_processes
from annulus.studies.distillation.classifiers.classifier import Classifier
from annulus.studies.distillation.classifiers.network import build_classifier
from annulus.studies.distillation.classifiers.objective import Objective, Supervised
from annulus.studies.distillation.classifiers.params import FitParams
from annulus.studies.distillation.classifiers.saved import load_classifier
from annulus.studies.distillation.classifiers.training import Fitted, check_images, train
from annulus.studies.distillation.contrast import build_contrast
from annulus.studies.distillation.memories import ContrastiveDistillation
from annulus.studies.distillation.objective import Distillation
from annulus.studies.distillation.params import ContrastParams, WeightParams

TrainedClassifier = tuple[Classifier, Fitted]


@dataclass(frozen=True)
class Task:
    """One training; `settings` holds network, fit, and beside a teacher weights and contrast."""

    settings: Mapping[str, Any]
    images: Path  # a folder with train.safetensors and test.safetensors
    teacher: Path | None = None
    # As it is now: an edit while seeds wait for a worker changes no run.
    code: Mapping[str, str] = field(default_factory=partial(hash_code, Path(__file__)))

    def checkpoint(self, seed: int, device: torch.device) -> Checkpoint:
        """The run's resume state, which holds a finished run until it is forgotten."""
        read = [self.images] if self.teacher is None else [self.images, self.teacher]
        key = {  # another seed changes no run
            "settings": {name: value for name, value in self.settings.items() if name != "seeds"},
            "seed": seed,
            "inputs": hash_files(*read),
            "code": self.code,
        }
        return Checkpoint("distillation", key, device=described(device))

    def run(self, seed: int, device: torch.device) -> TrainedClassifier:
        """The trained classifier, on the CPU, and its numbers.

        Raises:
            InputError: when teacher, images and settings do not suit each other, before the first step.
        """
        train_images, test = (
            load_images(self.images / f"{split}.safetensors").labelled() for split in ("train", "test")
        )
        fit, network = filled(FitParams, self.settings["fit"]), self.settings["network"]
        statistics = train_images.channel_statistics()
        classifier = build_classifier(network, len(train_images.classes), seed, statistics).to(device)
        objective = self.objective(classifier, train_images, fit, seed, device)
        keeps = self.checkpoint(seed, device) if rank() == 0 else nullcontext()
        with keeps as checkpoint:
            fitted = train(classifier, objective, train_images, test, fit, seed, device, checkpoint)
        return classifier.cpu(), fitted

    def objective(
        self, classifier: Classifier, images: ImageSet, fit: FitParams, seed: int, device: torch.device
    ) -> Objective:
        """The loss of the classifier."""
        if self.teacher is None:
            return Supervised(classifier)
        teacher, contrast = load_classifier(self.teacher).to(device), None
        check_images(teacher, images, "training")
        weights = filled(WeightParams, self.settings["weights"])
        if weights.contrast > 0:
            params = filled(ContrastParams, self.settings["contrast"])
            widths, (steps, left) = (classifier.width, teacher.width), divmod(len(images), fit.batch_size)
            steps += left > 1  # of an epoch: a last image alone is left out
            labels, config = images.labels.to(device), build_contrast(params)
            contrast = ContrastiveDistillation(widths, labels, params, config, seed, steps)
        return Distillation(classifier, teacher, weights, contrast)


def run_seeds(task: Task, seeds: Sequence[int]) -> tuple[dict[int, TrainedClassifier], Callable[[], None]]:
    """The run of each seed, several at a time, and a function that lets the checkpoints go after the files' writing."""
    device = pick_device()
    results = map_processes(
        partial(task.run, device=device), seeds, names=[f"seed {seed}" for seed in seeds], device=device
    )
    return dict(zip(seeds, results, strict=True)), lambda: let_go(task.checkpoint(seed, device) for seed in seeds)
