"""The training loop, written out once; a killed run goes on where it stopped, on a CPU bit for bit."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.checks import Checks
from annulus.device.copies import to_device
from annulus.device.distributed import broadcast, mean_
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.files.images import ImageSet
from annulus.files.results import Number
from annulus.files.store import AHEAD
from annulus.methods.contrast_config import Progress
from annulus.methods.step import Method, Step
from annulus.negatives.ranks import kept_shares
from annulus.optim.gradients import GradientMeans
from annulus.optim.schedules import Schedule
from annulus.optim.sgd import FusedSGD
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint
from annulus.training.online_probe import OnlineProbe
from annulus.training.run import Run
from annulus.training.snapshots import Snapshots
from annulus.training.validation import Validation, embeddings
from annulus.views.patches import views_of
from annulus.views.shown import seen_in

LOSS_CHECK_STEPS = 50  # reading a loss waits for the GPU, so it is read this often; a CPU reads every step


class Training:
    """One run: a method, and all that must survive a kill with it."""

    def __init__(
        self,
        method: Method,
        images: ImageSet,
        validation: ImageSet,
        settings: Run,
        device: torch.device,
    ) -> None:
        self.method, self.settings, self.device = method, settings, device
        images, validation = images.on(device), validation.on(device)
        self.source = images
        self.validation = Validation(validation, images, settings.budget.validation_images, settings.seed, device)
        self.probe: OnlineProbe | None = None
        if len(self.validation.images):
            self.probe = OnlineProbe(method.encoder, images.labels, len(images.classes), device)
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
        needs_validation = self.schedule.watches_accuracy or self.annealing.watches_accuracy
        if needs_validation and len(validation) == 0:
            raise InputError(
                "schedule: plateau and anneal: adaptive-epoch decide by validation accuracy, but the validation part "
                "holds 0 images; raise datasets.DATASET.validation_fraction, or, of images without a class, which have "
                "none, take another schedule or anneal"
            )
        self.view_generator = generator(settings.seed, "views")  # on the CPU: the same views on every device
        self.checks = Checks()
        self.batches = len(self.images) // settings.budget.batch_size  # a last, smaller batch is left out
        self.epoch, self.batch = 0, 0  # what comes next
        # Of this epoch's steps: loss, bound, ceiling; mean and mean square of the queries' gradient norms.
        self.measured = torch.zeros(self.batches, 5, device=device)
        self.history: list[dict[str, Number]] = []
        self.snapshots: Snapshots | None = None  # for a stage to set before `run`; nothing here reads what they hold

    def run(self, checkpoint: Checkpoint | None = None) -> list[dict[str, Number]]:
        """Train to the end, from the checkpoint when there is one; returns one row per epoch.

        Raises:
            InputError: when the loss is not finite, with the step, the learning rate and the images.
        """
        state = broadcast(checkpoint.load() if checkpoint is not None else None)
        if state is not None:
            self.load_state_dict(state)
            if self.epoch < self.settings.budget.epochs:
                progress.say(f"resuming at epoch {self.epoch + 1}, batch {self.batch + 1} of {self.batches}")
        else:
            self.method.start(self._embed)
        while self.epoch < self.settings.budget.epochs:
            order = self._order()
            if self.batch == 0:
                self.method.before_epoch(self.epoch, self._embed)
            self.method.train()
            while self.batch < self.batches:
                self.step(order)
                self._report(self._loss_now)
                if ended := self.batch == self.batches:
                    self._check(order)
                # Only sound states are saved.
                if checkpoint is not None and (ended or self._looks()) and checkpoint.due:
                    checkpoint.save(self.state_dict())
            self._end_epoch()
            self._report(lambda: _line(self.history[-1], self.settings.budget.epochs))
        return self.history

    def metrics(self) -> dict[str, Number]:
        """The last epoch's numbers, and the settings that they belong to."""
        last = {name: value for name, value in self.history[-1].items() if name.endswith(("_nats", "_percent"))}
        return last | {
            "epochs": self.settings.budget.epochs,
            "train_images": len(self.source),
            "validation_images": len(self.validation.images),
            "weights": sum(parameter.numel() for parameter in self.trainable),
        }

    def step(self, order: Int[Tensor, "batches b"]) -> None:
        """One batch of the epoch's order: see, learn, store, look at the loss."""
        rows = order[self.batch]
        [index] = to_device([rows], self.device)
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        shown = self.method.shown(len(rows), 1 + AHEAD)
        needed, *later = [batch[seen_in(each)] for batch, each in zip(order[self.batch :], shown, strict=False)]
        images, sizes = self.images.take(needed), self.images.sizes_of(rows)
        self.images.ahead(later)
        random = [self.view_generator] * self.method.views
        views = views_of(images, self.settings.views, self.method.encoder.view_size, random, shown[0], sizes)
        self.optimizer.zero_grad()
        with self.checks.put_off():
            step = self.method.loss(views, index, Progress(self._share_done(), self._progress()))
        step.queries.retain_grad()
        step.estimate.loss.backward()
        self.means.wait()
        self.optimizer.step()
        with self.checks.put_off():
            self.method.after_step(index, step)
        if self.probe is not None:
            self.probe.learn(index, step.pooled)
        self._measure(step)
        if self.annealing.watches_loss:
            self.annealing.after_step(self.measured[self.batch, 0].item())
        self.batch += 1
        if self._looks():
            self._check(order)

    def _looks(self) -> bool:
        """True after the steps that look at checks, the same in all processes: each look waits for the others."""
        return self.device.type == "cpu" or self.batch % LOSS_CHECK_STEPS == 0

    def _measure(self, step: Step) -> None:
        # The loss is a mean over queries, so a query's own gradient is as many times larger (arXiv:2010.01929, eq. 11).
        norms = step.queries.grad.norm(dim=1) * len(step.queries)
        estimate = step.estimate
        numbers = [estimate.loss_nats, estimate.bound_nats, estimate.ceiling_nats, norms.mean(), norms.square().mean()]
        mean_(torch.stack(numbers, out=self.measured[self.batch]))  # of all processes, in place

    def _end_epoch(self) -> None:
        accuracies = self.validation.accuracies(self.method, self.probe)
        loss, bound, ceiling, gradient, square = self.measured.mean(dim=0).tolist()
        inner, outer = kept_shares(self.settings.sampler.shares, self._progress())
        row: dict[str, Number] = {
            "epoch": self.epoch + 1,
            "loss_nats": loss,
            "bound_nats": bound,
            "ceiling_nats": ceiling,
            "gradient_norm": gradient,  # of the loss in a query: mean and standard deviation over this epoch's queries
            "gradient_norm_std": max(square - gradient**2, 0.0) ** 0.5,
            "learning_rate": self.optimizer.param_groups[0]["lr"],  # of the last step
            "inner_share": inner,
            "outer_share": outer,
        }
        self.history.append(row | accuracies)
        accuracy = accuracies.get("validation_nn1_percent")
        self.schedule.after_epoch(accuracy)
        self.annealing.after_epoch(accuracy)
        if self.snapshots is not None:
            self.snapshots.after_epoch(self.epoch + 1, self.method)
        self.epoch, self.batch = self.epoch + 1, 0

    def _embed(self) -> Float[Tensor, "n d"]:
        """The embeddings of all training images now."""
        return embeddings(self.method.encoder, self.source, self.device)

    def _order(self) -> Int[Tensor, "batches b"]:
        """This epoch's images, batch by batch, on the CPU; depends only on the seed and the epoch."""
        shuffled = torch.randperm(len(self.images), generator=generator(self.settings.seed, "order", self.epoch))
        used = shuffled[: self.batches * self.settings.budget.batch_size]
        return used.view(self.batches, -1)

    def _report(self, text: Callable[[], str]) -> None:
        """Report the number of images whose views were processed."""
        epochs, epoch_images = self.settings.budget.epochs, self.batches * self.settings.budget.batch_size
        seen = self.epoch * epoch_images + self.batch * self.settings.budget.batch_size
        progress.report(seen, epochs * epoch_images, text, ended=self.epoch == epochs)

    def _loss_now(self) -> str:
        loss = self.measured[: self.batch, 0].mean().item()
        return f"epoch {self.epoch + 1}/{self.settings.budget.epochs}: loss {loss:.3f} nats, rate {self._rate():.2g}"

    def _share_done(self) -> float:
        """The share of training that is done."""
        return (self.epoch + self.batch / self.batches) / self.settings.budget.epochs

    def _rate(self) -> float:
        return self.schedule.rate(self._share_done())

    def _progress(self) -> float:
        return self.annealing.progress(self._share_done())

    def _check(self, order: Int[Tensor, "batches b"]) -> None:
        self.checks.look()
        losses = self.measured[: self.batch, 0]
        if losses.isfinite().all():
            return
        batch = int((~losses.isfinite()).nonzero()[0])
        rows = self.source.rows[order[batch]].tolist()
        rate = self.schedule.rate((self.epoch + batch / self.batches) / self.settings.budget.epochs)
        raise InputError(
            f"the loss is {losses[batch].item()} at step {self.epoch * self.batches + batch + 1} "
            f"(epoch {self.epoch + 1}, batch {batch + 1}), learning rate {rate:.3g}, rows {rows} of the training "
            "images; lower scales.SCALE.pretrain.learning_rate or raise methods.METHOD.warmup"
        )

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "measured": self.measured,
            "history": self.history,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "annealing": self.annealing.state_dict(),
            "view_generator": self.view_generator.get_state(),
            "probe": None if self.probe is None else self.probe.state_dict(),
            "snapshots": None if self.snapshots is None else self.snapshots.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.batch, self.history = state["epoch"], state["batch"], state["history"]
        self.measured.copy_(state["measured"])
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.annealing.load_state_dict(state["annealing"])
        self.view_generator.set_state(state["view_generator"])
        if self.probe is not None:
            self.probe.load_state_dict(state["probe"])
        if self.snapshots is not None:  # of several processes, only the first keeps them
            self.snapshots.load_state_dict(state["snapshots"])


def _line(row: Mapping[str, Number], epochs: int) -> str:
    """An epoch's row of the history as a sentence."""
    text = (
        f"epoch {row['epoch']}/{epochs}: loss {row['loss_nats']:.3f} nats, "
        f"bound {row['bound_nats']:.3f} of {row['ceiling_nats']:.3f}, rate {row['learning_rate']:.2g}"
    )
    if "validation_nn1_percent" in row:
        text += f", validation 1-NN {row['validation_nn1_percent']:.1f} %"
    if "online_linear_top1_percent" in row:
        text += f", linear {row['online_linear_top1_percent']:.1f} %"
    return text
