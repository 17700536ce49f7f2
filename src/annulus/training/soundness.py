"""Stops a training whose loss is not finite, or whose numbers fail a check."""

from jaxtyping import Int
from torch import Tensor

from annulus.errors import InputError
from annulus.methods.step import Step
from annulus.training.loop import Observer, Training
from annulus.training.measurement import Measurement


class Soundness(Observer):
    """Checks the losses, and evaluates the deferred checks, after the steps where the loop may wait for a GPU."""

    def __init__(self, measurement: Measurement) -> None:
        self.measurement = measurement

    def after_step(self, training: Training, index: Int[Tensor, "all"], step: Step) -> None:
        if training.looks:
            self.look(training)

    def look(self, training: Training) -> None:
        """Checks the steps of this epoch.

        Raises:
            InputError: for a loss that is not finite, with step, learning rate and images; for a check that fails.
        """
        training.checks.look()
        losses = self.measurement.losses[: training.batch]
        if losses.isfinite().all():
            return
        batch, epoch, batches = int((~losses.isfinite()).nonzero()[0]), training.epoch, training.batches
        rows = training.source.rows[training.order()[batch]].tolist()
        rate = training.schedule.rate((epoch + batch / batches) / training.settings.budget.epochs)
        raise InputError(
            f"the loss is {losses[batch].item()} at step {epoch * batches + batch + 1} "
            f"(epoch {epoch + 1}, batch {batch + 1}), learning rate {rate:.3g}, rows {rows} of the training "
            "images; lower scales.SCALE.pretrain.learning_rate or raise methods.METHOD.warmup"
        )
