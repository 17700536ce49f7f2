"""Training loop of a classifier, with or without a teacher; a killed run resumes after its last epoch, bit for bit.

Several processes share each batch: views, batch statistics and memories belong to the whole batch.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.copies import to_device
from annulus.device.device import autocast
from annulus.device.distributed import broadcast, local, local_slice, mean_, world_size
from annulus.device.rng import generator
from annulus.encoders.batchnorm import synchronised
from annulus.errors import InputError
from annulus.evals.accuracy import label_ranks, percent
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.files.store import BATCH_SIZE
from annulus.optim.gradients import GradientMeans
from annulus.optim.schedules import Schedule
from annulus.optim.sgd import FusedSGD
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint
from annulus.views.batch_share import share
from annulus_lab.studies.distillation.classifiers.classifier import Classifier
from annulus_lab.studies.distillation.classifiers.classifier_params import FitParams
from annulus_lab.studies.distillation.classifiers.crops import padded_crops
from annulus_lab.studies.distillation.classifiers.objective import Objective


@dataclass(frozen=True)
class FitResult:
    """Numbers of a trained classifier, one row per epoch, and the right test images of each accuracy."""

    metrics: dict[str, Number]
    history: list[dict[str, Number]]
    right: dict[str, Bool[np.ndarray, "n"]]


def train(
    classifier: Classifier,
    objective: Objective,
    images: ImageSet,
    test: ImageSet,
    params: FitParams,
    seed: int,
    device: torch.device,
    checkpoint: Checkpoint | None = None,
) -> FitResult:
    """Minimises the objective over the classifier's weights and its own; tests once, at the end.

    `classifier` and `objective` are on the device already. With several processes only the first has a checkpoint.

    Raises:
        InputError: when images and classifier do not fit, the processes cannot share the batches evenly, or the loss is
            not finite, with the step and the rate.
    """
    check_images(classifier, images, "training")
    check_images(classifier, test, "test")
    if len(images) == 1:
        raise InputError("there is 1 training image, and batch-norm needs at least 2; give more images")
    if images.classes != test.classes:
        differing = sorted(set(images.classes) ^ set(test.classes)) or ["their order"]
        raise InputError(
            f"the test images' classes differ from the training images' in {differing[0]}; "
            "prepare both from one data set"
        )
    run = _Run(classifier, objective, images, params, seed, device)
    if (state := broadcast(checkpoint.load() if checkpoint is not None else None)) is not None:
        run.load_state_dict(state)
        if len(run.history) < params.epochs:
            progress.say(f"resuming at epoch {len(run.history) + 1} of {params.epochs}")
    while len(run.history) < params.epochs:
        run.epoch()
        if checkpoint is not None:
            checkpoint.save(run.state_dict())
    ranks = label_ranks(scores(classifier, test, device), test.labels)
    right = {f"top{k}_percent": (ranks < k).numpy() for k in (1, 5)}
    metrics = {
        **{name: percent(torch.from_numpy(bits)) for name, bits in right.items()},
        "loss_nats": run.history[-1]["loss_nats"],
        "epochs": params.epochs,
        "train_images": len(images),
        "images": len(test),
        "weights": sum(parameter.numel() for parameter in classifier.parameters()),
    }
    return FitResult(metrics, run.history, right)


@torch.no_grad()
def scores(classifier: Classifier, images: ImageSet, device: torch.device) -> Float[Tensor, "n classes"]:
    """Logits of the whole, unmirrored images, on the CPU; leaves the classifier in evaluation mode.

    Raises:
        InputError: when a score is not finite.
    """
    classifier.eval()
    all_scores = []
    for _, some in images.images.on(device).in_turn(torch.arange(len(images)).split(BATCH_SIZE)):
        with autocast(device):
            all_scores.append(classifier(some.float() / 255).float().cpu())
    all_scores = torch.cat(all_scores)
    if not all_scores.isfinite().all():
        row = int((~all_scores.isfinite()).any(dim=1).nonzero()[0])
        raise InputError(
            f"{classifier.config.name}'s scores of image {row} are not finite: its training diverged; "
            "lower the learning rate"
        )
    return all_scores


def check_images(classifier: Classifier, images: ImageSet, split: str) -> None:
    """Checks that this classifier can train or test on these images.

    Raises:
        InputError: when the set is empty, the number of classes differs, or the images differ in size.
    """
    if len(images) == 0:
        raise InputError(f"the {split} part holds 0 images; give at least one")
    if len(images.classes) != classifier.config.classes:
        raise InputError(
            f"{classifier.config.name} scores {classifier.config.classes} classes, and the {split} images have "
            f"{len(images.classes)}; build it with classes={len(images.classes)}"
        )
    if images.images.sizes is not None:
        raise InputError(
            f"the {split} images differ in size, and a classifier sees whole images; prepare squares of one image_size"
        )


class _Run:
    """State of one run: everything that a checkpoint holds."""

    def __init__(
        self,
        classifier: Classifier,
        objective: Objective,
        images: ImageSet,
        params: FitParams,
        seed: int,
        device: torch.device,
    ) -> None:
        local_slice(params.batch_size)  # raises here, before the first step
        last = len(images) % params.batch_size
        if last > 1 and last % world_size():
            raise InputError(
                f"{len(images)} images end with a batch of {last}, which {world_size()} processes cannot share evenly; "
                "take another batch_size, or one process"
            )
        if world_size() > 1:
            synchronised(classifier)
        self.classifier, self.objective, self.params = classifier, objective, params
        self.seed, self.device = seed, device
        self.images, self.labels = images.images.on(device), images.labels
        self.trainable = [*classifier.parameters(), *objective.parameters()]
        self.optimizer = FusedSGD(
            self.trainable,
            lr=params.learning_rate,
            momentum=params.momentum,
            weight_decay=params.weight_decay,
        )
        self.means = GradientMeans(self.trainable)
        self.schedule = Schedule(params.schedule, params.learning_rate, warmup=0.0)
        self.history: list[dict[str, Number]] = []

    def epoch(self) -> None:
        """Trains one epoch; its order and its views depend only on the seed and the epoch."""
        epoch, epochs = len(self.history), self.params.epochs
        shuffled = torch.randperm(len(self.images), generator=generator(self.seed, "classifier", "order", epoch))
        # A batch of one image has zero variance, and batch-norm would divide by it.
        batches = [rows for rows in shuffled.split(self.params.batch_size) if len(rows) > 1]
        views = generator(self.seed, "classifier", "views", epoch)
        rate = self.schedule.rate(epoch / epochs)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.classifier.train()
        losses = torch.zeros(len(batches), device=self.device)
        read = self.images.in_turn([local(rows) for rows in batches])  # each process reads its own images alone
        for step, (rows, (_, some)) in enumerate(zip(batches, read, strict=True)):
            crops = padded_crops(some, self.params.padding, self.params.flip, views, share(len(rows)))
            losses[step] = self._step(rows, crops)
            if self.device.type == "cpu":
                self._check(losses[: step + 1], len(batches), rate)
            done = epoch + (step + 1) / len(batches)
            text = partial("epoch {}/{}, rate {:.2g}".format, epoch + 1, epochs, rate)
            progress.report(round(done * len(self.images)), epochs * len(self.images), text, ended=done == epochs)
        self._check(losses, len(batches), rate)
        self.history.append({"epoch": epoch + 1, "loss_nats": losses.mean().item(), "learning_rate": rate})

    def _step(self, rows: Int[Tensor, "all"], views: Float[Tensor, "b 3 s s"]) -> Float[Tensor, ""]:
        rows, labels = to_device([rows, self.labels[rows]], self.device)
        with autocast(self.device):
            loss = self.objective.loss(views, rows, labels)
        self.optimizer.zero_grad()
        loss.backward()
        self.means.wait()
        self.optimizer.step()
        self.objective.after_step(rows)
        return mean_(loss.detach())

    def _check(self, losses: Float[Tensor, "steps"], batches: int, rate: float) -> None:
        """Raises InputError if a loss is not finite. A GPU checks once an epoch, since a check waits for its step."""
        if losses.isfinite().all():
            return
        step = int((~losses.isfinite()).nonzero()[0])
        raise InputError(
            f"{self.classifier.config.name}: the loss is {losses[step].item()} at step "
            f"{len(self.history) * batches + step + 1} (epoch {len(self.history) + 1}) with learning rate {rate:g}; "
            "lower the learning rate"
        )

    def state_dict(self) -> dict[str, Any]:
        return {
            "classifier": self.classifier.state_dict(),
            "objective": dict(self.objective.state_dict()),
            "optimizer": self.optimizer.state_dict(),
            "history": self.history,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.classifier.load_state_dict(state["classifier"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.history = state["history"]
