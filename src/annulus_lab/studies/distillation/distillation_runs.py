"""Runs of teachers and students, one for each seed; a killed run resumes after its last epoch."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from annulus.device.device import described, pick_device
from annulus.device.distributed import rank
from annulus.files.images import ImageSet, load_images
from annulus.running.checkpoint import Checkpoint, hash_files, let_go
from annulus.running.code import hash_code
from annulus.running.workers import map_processes
from annulus_lab.config.params import filled
from annulus_lab.studies.distillation.classifiers.classifier import Classifier
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.network import build_classifier
from annulus_lab.studies.distillation.classifiers.objective import Objective, Supervised
from annulus_lab.studies.distillation.classifiers.saved import load_classifier
from annulus_lab.studies.distillation.classifiers.training import FitResult, check_images, train
from annulus_lab.studies.distillation.contrast import build_contrast
from annulus_lab.studies.distillation.distillation_params import ContrastParams, WeightParams
from annulus_lab.studies.distillation.memories import ContrastiveDistillation
from annulus_lab.studies.distillation.objective import Distillation

TrainedClassifier = tuple[Classifier, FitResult]


@dataclass(frozen=True)
class ClassifierTask:
    """One training of a classifier; `settings` holds network and fit, and with a teacher also weights and contrast."""

    settings: Mapping[str, Any]
    images: Path  # a folder with train.safetensors and test.safetensors
    teacher: Path | None = None
    # Read once: an edit while seeds wait for a worker changes no run.
    code: Mapping[str, str] = field(default_factory=partial(hash_code, Path(__file__)))

    def checkpoint(self, seed: int, device: torch.device) -> Checkpoint:
        """Checkpoint of a run; it keeps a finished run until `let_go` deletes it."""
        read = [self.images] if self.teacher is None else [self.images, self.teacher]
        key = {  # further seeds change no run
            "settings": {name: value for name, value in self.settings.items() if name != "seeds"},
            "seed": seed,
            "inputs": hash_files(*read),
            "code": self.code,
        }
        return Checkpoint("distillation", key, device=described(device))

    def run(self, seed: int, device: torch.device) -> TrainedClassifier:
        """Trains the classifier; returns it, on the CPU, with its numbers.

        Raises:
            InputError: before the first step, when teacher, images and settings do not fit.
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
        """Builds the loss of the classifier."""
        if self.teacher is None:
            return Supervised(classifier)
        teacher, contrast = load_classifier(self.teacher).to(device), None
        check_images(teacher, images, "training")
        weights = filled(WeightParams, self.settings["weights"])
        if weights.contrast > 0:
            params = filled(ContrastParams, self.settings["contrast"])
            widths, (steps, left) = (classifier.width, teacher.width), divmod(len(images), fit.batch_size)
            steps += left > 1  # of an epoch; a single last image is left out
            labels, config = images.labels.to(device), build_contrast(params)
            contrast = ContrastiveDistillation(widths, labels, params, config, seed, steps)
        return Distillation(classifier, teacher, weights, contrast)


def run_seeds(task: ClassifierTask, seeds: Sequence[int]) -> tuple[dict[int, TrainedClassifier], Callable[[], None]]:
    """Trains the seeds, several at a time; returns the runs, and a function that deletes their checkpoints.

    Call the function after the files are written.
    """
    device = pick_device()
    results = map_processes(
        partial(task.run, device=device), seeds, names=[f"seed {seed}" for seed in seeds], device=device
    )
    return dict(zip(seeds, results, strict=True)), lambda: let_go(task.checkpoint(seed, device) for seed in seeds)
