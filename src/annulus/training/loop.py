"""The training loop. A killed run continues from its checkpoint, on a CPU bit for bit."""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.checks import Checks
from annulus.device.copies import to_device
from annulus.device.distributed import broadcast
from annulus.device.rng import generator
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.files.store import AHEAD
from annulus.methods.contrast_config import Progress
from annulus.methods.step import Method, Step
from annulus.optim.gradients import GradientMeans
from annulus.optim.schedules import Schedule
from annulus.optim.sgd import FusedSGD
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint
from annulus.training.embeddings import embeddings
from annulus.training.run import TrainingRun
from annulus.views.batch_share import rows_in
from annulus.views.patches import draw_views

LOSS_CHECK_STEPS = 50  # reading a loss waits for the GPU, so it is read this often; a CPU reads every step


class Observer:
    """Base class of the observers of a training.

    The loop calls its observers in the order of their list: after each step, after each epoch, and at the end. By
    default the three methods do nothing.
    """

    def after_step(self, training: "Training", index: Int[Tensor, "all"], step: Step) -> None:
        """Runs after step `training.batch` of the epoch, counted from 1; `index` holds the numbers of the images."""

    def after_epoch(self, training: "Training", row: dict[str, Number]) -> None:
        """Runs after the last step of an epoch; may add numbers to its row of the history."""

    def at_end(self, training: "Training", metrics: dict[str, Number]) -> None:
        """Runs after the last epoch, and again in a run that resumes there; may add numbers to the metrics."""

    def state_dict(self) -> dict[str, Any]:
        """Returns the state that a resumed run needs."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved state."""


class Training:
    """One run: a method, and all other state that a resumed run needs."""

    def __init__(
        self,
        method: Method,
        images: ImageSet,
        settings: TrainingRun,
        device: torch.device,
        observers: Sequence[Observer],
    ) -> None:
        self.method, self.source, self.settings, self.device = method, images, settings, device
        self.observers = list(observers)
        self.images = images.images
        self.trainable = [parameter for parameter in method.parameters() if parameter.requires_grad]
        self.optimizer = FusedSGD(
            self.trainable,
            lr=settings.learning_rate,
            momentum=settings.optimizer.momentum,
            weight_decay=settings.optimizer.weight_decay,
        )
        self.means = GradientMeans(self.trainable)
        self.schedule = Schedule(settings.schedule, settings.learning_rate, method.params.warmup)
        self.annealing = settings.annealing.begin()
        self.view_generator = generator(settings.seed, "views")  # on the CPU: the same views on every device
        self.checks = Checks()
        self.batches = settings.batches(len(images))
        self.epoch, self.batch = 0, 0  # of the next step
        self.history: list[dict[str, Number]] = []
        self.metrics: dict[str, Number] = {}  # of the last epoch and the whole run; filled at the end of `run`

    def run(self, checkpoint: Checkpoint | None = None) -> list[dict[str, Number]]:
        """Trains to the end, from the checkpoint if it holds a state; returns one row per epoch.

        Raises:
            InputError: if the loss is not finite, with the step, the learning rate and the images.
        """
        self._start(checkpoint)
        while self.epoch < self.settings.budget.epochs:
            order = self.order()
            if self.batch == 0:
                self.method.before_epoch(self.epoch, self._embed)
            self.method.train()
            while self.batch < self.batches:
                self.step(order)
                if checkpoint is not None and self.looks and checkpoint.due:  # only sound states are saved
                    checkpoint.save(self.state_dict())
            self._end_epoch()
        if checkpoint is not None:
            checkpoint.save(self.state_dict())
        self._end()
        return self.history

    def step(self, order: Int[Tensor, "batches b"]) -> None:
        """One batch of the epoch's order: views, loss, update, memory; then the observers."""
        [index] = to_device([order[self.batch]], self.device)
        views = self._views(order)
        for group in self.optimizer.param_groups:
            group["lr"] = self.rate
        self.optimizer.zero_grad()
        with self.checks.put_off():
            step = self.method.loss(views, index, self.progress)
            step.queries.retain_grad()  # an observer measures it
            step.estimate.loss.backward()
            self.means.wait()
            self.optimizer.step()
            self.method.after_step(index, step)
        self.batch += 1
        for observer in self.observers:
            observer.after_step(self, index, step)

    def _views(self, order: Int[Tensor, "batches b"]) -> list[Float[Tensor, "_ 3 h w"]]:
        """Draws the views of the next batch, while the images of later batches are read."""
        rows, count = order[self.batch], self.method.views
        batch_shares = self.method.batch_shares(len(rows), 1 + AHEAD)
        needed, *later = [
            batch[rows_in(shares)] for batch, shares in zip(order[self.batch :], batch_shares, strict=False)
        ]
        images, sizes = self.images.take(needed), self.images.image_sizes(rows)
        self.images.ahead(later)
        size, random = self.method.encoder.view_size, [self.view_generator] * count
        sets = self.method.view_sets(self.settings.views)
        return draw_views(images, sets, size, random, batch_shares[0], sizes)

    @property
    def trained(self) -> float:
        """The completed share of training."""
        return (self.epoch + self.batch / self.batches) / self.settings.budget.epochs

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        return self.schedule.rate(self.trained)

    @property
    def progress(self) -> Progress:
        """The progress of training and of annealing before the next step."""
        annealing = self.annealing
        return Progress(self.trained, annealing.progress(self.trained), annealing.temperature(self.trained))

    @property
    def looks(self) -> bool:
        """True after the steps that read losses and checks, the same in all processes: a read waits for all."""
        return self.device.type == "cpu" or self.batch % LOSS_CHECK_STEPS == 0 or self.batch == self.batches

    def order(self) -> Int[Tensor, "batches b"]:
        """Numbers of this epoch's images, a row per batch, on the CPU; they depend only on the seed and the epoch."""
        shuffled = torch.randperm(len(self.images), generator=generator(self.settings.seed, "order", self.epoch))
        used = shuffled[: self.batches * self.settings.budget.batch_size]
        return used.view(self.batches, -1)

    def _start(self, checkpoint: Checkpoint | None) -> None:
        state = broadcast(checkpoint.load() if checkpoint is not None else None)
        if state is None:
            self.method.start(self._embed)
            return
        self.load_state_dict(state)
        if self.epoch < self.settings.budget.epochs:
            progress.say(f"resuming at epoch {self.epoch + 1}, batch {self.batch + 1} of {self.batches}")

    def _end_epoch(self) -> None:
        row: dict[str, Number] = {"epoch": self.epoch + 1}
        for observer in self.observers:
            observer.after_epoch(self, row)
        self.history.append(row)
        self.epoch, self.batch = self.epoch + 1, 0

    def _end(self) -> None:
        last = {name: value for name, value in self.history[-1].items() if name.endswith(("_nats", "_percent"))}
        self.metrics = last | {
            "epochs": self.settings.budget.epochs,
            "train_images": len(self.source),
            "weights": sum(parameter.numel() for parameter in self.trainable),
        }
        for observer in self.observers:
            observer.at_end(self, self.metrics)

    def _embed(self) -> Float[Tensor, "n d"]:
        """Computes the current embeddings of all training images."""
        return embeddings(self.method.encoder, self.source, self.device)

    def state_dict(self) -> dict[str, Any]:
        """All state that the next step depends on."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "history": self.history,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "annealing": self.annealing.state_dict(),
            "view_generator": self.view_generator.get_state(),
            "observers": {type(observer).__name__: observer.state_dict() for observer in self.observers},
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.batch, self.history = state["epoch"], state["batch"], state["history"]
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.annealing.load_state_dict(state["annealing"])
        self.view_generator.set_state(state["view_generator"])
        for observer in self.observers:  # the first of several processes has more observers
            observer.load_state_dict(state["observers"][type(observer).__name__])
