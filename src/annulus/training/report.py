"""Progress of a training as lines, or as a bar on a terminal."""

from collections.abc import Callable, Mapping

from jaxtyping import Int
from torch import Tensor

from annulus.files.results import Number
from annulus.methods.step import Step
from annulus.running import progress
from annulus.training.loop import Observer, Training
from annulus.training.measurement import Measurement


class Report(Observer):
    """Reports the number of images whose views were processed, with the loss so far or with the row of an epoch."""

    def __init__(self, measurement: Measurement) -> None:
        self.measurement = measurement

    def after_step(self, training: Training, index: Int[Tensor, "all"], step: Step) -> None:
        if not training.looks:  # the loss of a line would make the host wait for a GPU
            return

        def text() -> str:
            loss = self.measurement.losses[: training.batch].mean().item()
            epochs = training.settings.budget.epochs
            return f"epoch {training.epoch + 1}/{epochs}: loss {loss:.3f} nats, rate {training.rate:.2g}"

        self._report(training, text)

    def after_epoch(self, training: Training, row: dict[str, Number]) -> None:
        epochs = training.settings.budget.epochs
        self._report(training, lambda: sentence(row, epochs), ended=row["epoch"] == epochs)

    def _report(self, training: Training, text: Callable[[], str], ended: bool = False) -> None:
        epochs, batch_size = training.settings.budget.epochs, training.settings.budget.batch_size
        steps = training.epoch * training.batches + training.batch
        progress.report(steps * batch_size, epochs * training.batches * batch_size, text, ended)


def sentence(row: Mapping[str, Number], epochs: int) -> str:
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
