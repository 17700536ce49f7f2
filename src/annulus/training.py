"""The training loop, written out once; a killed run goes on where it stopped, on a CPU bit for bit."""

import logging
import os
import sys
import time
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor
from tqdm import tqdm

from annulus.annealing import Annealing
from annulus.config import AnnealParams, OptimizerParams, PlateauSchedule, PretrainScale, ScheduleParams, ViewSetParams
from annulus.data import ImageSet
from annulus.errors import InputError
from annulus.evals.extract import extract
from annulus.evals.nearest import nearest_label_accuracy
from annulus.methods import InstanceDiscrimination
from annulus.negatives import kept_shares
from annulus.results import Number
from annulus.rng import generator
from annulus.schedules import Schedule
from annulus.scratch import Scratch
from annulus.views import augment

log = logging.getLogger("annulus")

CHECKPOINT_SECONDS = float(os.environ.get("ANNULUS_CHECKPOINT_SECONDS", 10))  # what a kill may cost, or longer:
CHECKPOINT_SHARE = 0.02  # saving takes at most this share of the time
LOSS_CHECK_STEPS = 50  # reading a loss waits for the GPU, so it is read this often; a CPU reads every step


@dataclass(frozen=True)
class Recipe:
    """How to train, apart from the method: what is seen, for how long, at which rate."""

    scale: PretrainScale
    optimizer: OptimizerParams
    schedule: ScheduleParams
    anneal: AnnealParams
    views: ViewSetParams
    seed: int


class Training:
    """One run: a method, and all that must survive a kill with it."""

    def __init__(
        self,
        method: InstanceDiscrimination,
        images: ImageSet,
        validation: ImageSet,
        recipe: Recipe,
        device: torch.device,
    ) -> None:
        self.method, self.recipe, self.device = method, recipe, device
        self.source, self.validation = images, validation
        self.images, self.labels = images.images.to(device), images.labels.to(device)
        self.optimizer = torch.optim.SGD(
            method.encoder.parameters(),
            lr=recipe.scale.learning_rate,
            momentum=recipe.optimizer.momentum,
            weight_decay=recipe.optimizer.weight_decay,
            fused=True,
        )
        self.schedule = Schedule(recipe.schedule, recipe.scale.learning_rate, recipe.optimizer.warmup)
        self.annealing = Annealing(recipe.anneal)
        needs_validation = isinstance(recipe.schedule, PlateauSchedule) or self.annealing.watches_accuracy
        if needs_validation and len(validation) == 0:
            raise InputError(
                "schedule: plateau and anneal: adaptive-epoch decide by validation accuracy, but the validation part "
                "holds 0 images; raise datasets.DATASET.validation_fraction"
            )
        self.view_generator = generator(recipe.seed, "views", device=device)
        self.batches = len(self.images) // recipe.scale.batch_size  # a last, smaller batch is left out
        self.epoch, self.batch = 0, 0  # what comes next
        self.nats = torch.zeros(self.batches, 2, device=device)  # loss and ceiling of this epoch's steps
        self.history: list[dict[str, Number]] = []

    def run(self, scratch: Scratch | None = None) -> list[dict[str, Number]]:
        """Train to the end, from the scratch's checkpoint when it holds one; returns one row per epoch.

        Raises:
            InputError: when the loss is not finite, with the step, the learning rate and the images.
        """
        if scratch is not None and (state := scratch.load()) is not None:
            self.load_state_dict(state)
            log.info("resuming at epoch %d, batch %d of %d", self.epoch + 1, self.batch + 1, self.batches)
        elif self.method.params.bank_start == "encoder":
            seen = extract(self.method.encoder, self.source, ["embedding"], self.device)
            self.method.bank.fill(seen.layers["embedding"])
        save_at = time.monotonic() + CHECKPOINT_SECONDS
        while self.epoch < self.recipe.scale.epochs:
            order = self._order()
            if self.batch == 0:
                self.method.before_epoch(self.epoch)
            self.method.train()
            bar = self._bar()
            while self.batch < self.batches:
                self.step(order)
                self._show(bar)
                if scratch is not None and time.monotonic() > save_at:
                    started = time.monotonic()
                    scratch.save(self.state_dict())
                    ended = time.monotonic()
                    save_at = ended + max(CHECKPOINT_SECONDS, (ended - started) / CHECKPOINT_SHARE)
            self._check(order)
            self._end_epoch()
            bar.close()
        return self.history

    def step(self, order: Int[Tensor, "batches b"]) -> None:
        """One batch of the epoch's order: see, learn, store, look at the loss."""
        index = order[self.batch]
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate()
        size, progress = self.method.encoder.view_size, self._progress()
        views = augment(self.images.index_select(0, index), self.recipe.views, size, self.view_generator)
        step = self.method.loss(views, index, progress)
        self.optimizer.zero_grad()
        step.loss.backward()
        self.optimizer.step()
        self.method.after_step(index, step)
        self.nats[self.batch] = torch.stack([step.loss.detach(), step.ceiling])
        if self.annealing.watches_loss:
            self.annealing.after_step(step.loss.item())
        self.batch += 1
        if self.device.type == "cpu" or self.batch % LOSS_CHECK_STEPS == 0:
            self._check(order)

    def _end_epoch(self) -> None:
        accuracy = self._validate()
        loss, ceiling = self.nats.mean(dim=0).tolist()
        inner, outer = kept_shares(self.method.sampler, self._progress())
        row: dict[str, Number] = {
            "epoch": self.epoch + 1,
            "loss_nats": loss,
            "bound_nats": ceiling - loss,
            "ceiling_nats": ceiling,
            "learning_rate": self.optimizer.param_groups[0]["lr"],  # of the last step
            "inner_share": inner,
            "outer_share": outer,
        }
        if accuracy is not None:
            row["validation_nn1_percent"] = accuracy
        self.history.append(row)
        if not sys.stderr.isatty():
            log.info("%s", self._line(row))
        self.schedule.after_epoch(accuracy)
        self.annealing.after_epoch(accuracy)
        self.epoch, self.batch = self.epoch + 1, 0

    def _validate(self) -> float | None:
        """Percent of validation images whose nearest row in the bank has their label (mutualinfo 5.1)."""
        if len(self.validation.images) == 0:
            return None
        seen = extract(self.method.encoder, self.validation, ["embedding"], self.device)
        embedding, labels = seen.layers["embedding"].to(self.device), seen.labels.to(self.device)
        return nearest_label_accuracy(embedding, self.method.bank.rows, labels, self.labels)

    def _order(self) -> Int[Tensor, "batches b"]:
        """This epoch's images, batch by batch; depends on the seed and the epoch alone."""
        shuffled = torch.randperm(len(self.images), generator=generator(self.recipe.seed, "order", self.epoch))
        used = shuffled[: self.batches * self.recipe.scale.batch_size]
        return used.view(self.batches, -1).to(self.device)

    def _trained(self) -> float:
        """The share of training that is done."""
        return (self.epoch + self.batch / self.batches) / self.recipe.scale.epochs

    def _rate(self) -> float:
        return self.schedule.rate(self._trained())

    def _progress(self) -> float:
        return self.annealing.progress(self._trained())

    def _check(self, order: Int[Tensor, "batches b"]) -> None:
        losses = self.nats[: self.batch, 0]
        if losses.isfinite().all():
            return
        batch = int((~losses.isfinite()).nonzero()[0])
        rows = self.source.rows[order[batch].cpu()].tolist()
        rate = self.schedule.rate((self.epoch + batch / self.batches) / self.recipe.scale.epochs)
        raise InputError(
            f"the loss is {losses[batch].item()} at step {self.epoch * self.batches + batch + 1} "
            f"(epoch {self.epoch + 1}, batch {batch + 1}), learning rate {rate:.3g}, rows {rows} of the training "
            "images; lower scales.SCALE.pretrain.learning_rate or raise optimizer.warmup"
        )

    def _bar(self) -> tqdm:
        """A bar on a terminal; elsewhere nothing, since a line is logged per epoch."""
        return tqdm(
            total=self.batches * self.recipe.scale.batch_size,
            initial=self.batch * self.recipe.scale.batch_size,
            desc=f"epoch {self.epoch + 1}/{self.recipe.scale.epochs}",
            unit=" images",
            leave=self.epoch + 1 == self.recipe.scale.epochs,
            disable=not sys.stderr.isatty(),
        )

    def _show(self, bar: tqdm) -> None:
        if not bar.disable:
            loss = self.nats[: self.batch, 0].mean().item()
            bar.set_postfix_str(f"loss {loss:.3f} nats, rate {self._rate():.2g}", refresh=False)
            bar.update(self.batch * self.recipe.scale.batch_size - bar.n)

    def _line(self, row: dict[str, Number]) -> str:
        text = (
            f"epoch {row['epoch']}/{self.recipe.scale.epochs}: loss {row['loss_nats']:.3f} nats, "
            f"bound {row['bound_nats']:.3f} of {row['ceiling_nats']:.3f}, rate {row['learning_rate']:.2g}"
        )
        if "validation_nn1_percent" in row:
            text += f", validation 1-NN {row['validation_nn1_percent']:.1f} %"
        return text

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next step depends on."""
        return {
            "epoch": self.epoch,
            "batch": self.batch,
            "nats": self.nats,
            "history": self.history,
            "method": self.method.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "schedule": self.schedule.state_dict(),
            "annealing": self.annealing.state_dict(),
            "view_generator": self.view_generator.get_state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.epoch, self.batch, self.history = state["epoch"], state["batch"], state["history"]
        self.nats.copy_(state["nats"])
        self.method.load_state_dict(state["method"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.schedule.load_state_dict(state["schedule"])
        self.annealing.load_state_dict(state["annealing"])
        self.view_generator.set_state(state["view_generator"].cpu())
