"""Feeds losses and accuracies to the learning rate and the annealing, if these depend on them."""

from jaxtyping import Int
from torch import Tensor

from annulus.files.results import Number
from annulus.methods.step import Step
from annulus.training.loop import Observer, Training
from annulus.training.measurement import Measurement


class Adaptation(Observer):
    """Feeds the schedule and the annealing of the training, which set the next step."""

    def __init__(self, measurement: Measurement) -> None:
        self.measurement = measurement

    def after_step(self, training: Training, index: Int[Tensor, "all"], step: Step) -> None:
        if training.annealing.watches_loss:
            loss = self.measurement.losses[training.batch - 1].item()
            training.annealing.after_step(loss)

    def after_epoch(self, training: Training, row: dict[str, Number]) -> None:
        accuracy = row.get("validation_nn1_percent")
        training.schedule.after_epoch(accuracy)
        training.annealing.after_epoch(accuracy)
