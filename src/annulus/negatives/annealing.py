"""Annealing policies: progress of the negatives from all other columns (0) to the sampler's set (1), or temperature.

Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Ge, Gt, Le

from annulus.errors import InputError
from annulus.settings import Section, Steps

PartOfTraining = Annotated[float, Gt(0), Le(1)]


class Annealing(Section):
    """Base class of annealing policies. `begin` returns the progress of a run: the policy itself if it has no state."""

    watches_loss: ClassVar = False  # True: `after_step` needs every loss, for which the host waits for a GPU
    watches_accuracy: ClassVar = False  # True: `after_epoch` needs the validation accuracy

    def begin(self) -> "Annealing | AdaptiveProgress":
        """Returns the progress at the start of training."""
        return self

    def progress(self, training: float) -> float:
        """Progress in [0, 1] at this share of training, in [0, 1)."""
        raise NotImplementedError

    def temperature(self, training: float) -> float:
        """Multiple of the method's temperature at this share of training."""
        return 1.0

    def after_step(self, loss_nats: float) -> None:
        """Observes a training loss."""

    def after_epoch(self, validation_percent: float | None) -> None:
        """Observes a validation accuracy."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from a saved state."""


@dataclass(frozen=True)
class ConstantAnnealing(Annealing):
    """Progress 1 from the start: the sampler's set.

    Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").

    >>> annulus.negatives.ConstantAnnealing().progress(training=0.0)
    1.0
    """

    def progress(self, training: float) -> float:
        return 1.0


@dataclass(frozen=True)
class LinearAnnealing(Annealing):
    """Linear progress, complete at the share `until` of training.

    Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").

    >>> annealing = annulus.negatives.LinearAnnealing(until=0.5)
    >>> [annealing.progress(training) for training in (0.0, 0.25, 0.75)]
    [0.0, 0.5, 1.0]
    """

    until: PartOfTraining

    def progress(self, training: float) -> float:
        return min(training / self.until, 1.0)


@dataclass(frozen=True)
class StepAnnealing(Annealing):
    """Progress in equal steps, complete at the share `until` of training.

    Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").

    >>> annealing = annulus.negatives.StepAnnealing(until=1.0, steps=2)
    >>> [annealing.progress(training) for training in (0.0, 0.49, 0.5)]
    [0.0, 0.0, 0.5]
    """

    until: PartOfTraining
    steps: Steps

    def progress(self, training: float) -> float:
        return min(math.floor(training / self.until * self.steps) / self.steps, 1.0)


@dataclass(frozen=True)
class AdaptiveEpochAnnealing(Annealing):
    """Adds `delta` after each epoch whose validation accuracy is above the mean of its last `window` values.

    Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").

    >>> annealing = annulus.negatives.AdaptiveEpochAnnealing(delta=0.1, window=3).begin()
    >>> for percent in (40.0, 45.0, 44.0):
    ...     annealing.after_epoch(percent)
    >>> annealing.progress(training=0.5)
    0.2
    """

    delta: PartOfTraining
    window: Steps
    watches_accuracy: ClassVar = True

    def begin(self) -> "AdaptiveProgress":
        return AdaptiveProgress(self.delta, self.window, "accuracy")


@dataclass(frozen=True)
class AdaptiveStepAnnealing(Annealing):
    """Adds `delta` after each step whose training loss is below the mean of its last `window` values.

    Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").

    >>> annealing = annulus.negatives.AdaptiveStepAnnealing(delta=0.1, window=3).begin()
    >>> for loss_nats in (4.0, 3.0, 2.0):
    ...     annealing.after_step(loss_nats)
    >>> annealing.progress(training=0.5)
    0.2
    """

    delta: PartOfTraining
    window: Steps
    watches_loss: ClassVar = True

    def begin(self) -> "AdaptiveProgress":
        return AdaptiveProgress(self.delta, self.window, "loss")


@dataclass(frozen=True)
class CosineTemperature(Annealing):
    """Temperatures from `highest` times the method's down to the method's and back, `periods` times in training.

    The multiple is 1 + (highest - 1)/2 (1 + cos(2 pi periods training)). The negatives are the sampler's set from the
    start.

    In the authors' code a period has 400 of 2,000 epochs.

    Source: Kukleva et al. 2023, arXiv:2303.13664, Section 3.

    >>> annealing = annulus.negatives.CosineTemperature(highest=10.0, periods=2.0)
    >>> [round(annealing.temperature(training), 6) for training in (0.0, 0.125, 0.25, 0.5)]
    [10.0, 5.5, 1.0, 10.0]
    """

    highest: Annotated[float, Ge(1), Le(1000)]
    periods: Annotated[float, Gt(0), Le(10**6)]

    def progress(self, training: float) -> float:
        return 1.0

    def temperature(self, training: float) -> float:
        return 1 + (self.highest - 1) / 2 * (1 + math.cos(2 * math.pi * self.periods * training))


class AdaptiveProgress:
    """Adds `delta` to the progress if the watched value is better than the mean of its last `window` values.

    The loss is watched after each step, the validation accuracy after each epoch. In the paper, progress moves back if
    the value is not better; here it stays.
    """

    def __init__(self, delta: float, window: int, watches: Literal["loss", "accuracy"]) -> None:
        self.delta = delta
        self.watches_loss, self.watches_accuracy = watches == "loss", watches == "accuracy"
        self.reached = 0.0
        self.recent: deque[float] = deque(maxlen=window)

    def progress(self, training: float) -> float:
        return self.reached

    def temperature(self, training: float) -> float:
        return 1.0

    def after_step(self, loss_nats: float) -> None:
        if self.watches_loss:
            self._observe(-loss_nats)

    def after_epoch(self, validation_percent: float | None) -> None:
        if self.watches_accuracy:
            if validation_percent is None:
                raise InputError("validation_percent None: adaptive annealing by epochs needs an accuracy; give it")
            self._observe(validation_percent)

    def _observe(self, score: float) -> None:
        if self.recent and score > sum(self.recent) / len(self.recent):
            self.reached = min(self.reached + self.delta, 1.0)
        self.recent.append(score)

    def state_dict(self) -> dict[str, Any]:
        return {"reached": self.reached, "recent": list(self.recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.reached = state["reached"]
        self.recent.clear()
        self.recent.extend(state["recent"])


ANNEALS = {  # by their keys in params.yaml
    "none": ConstantAnnealing,
    "linear": LinearAnnealing,
    "step": StepAnnealing,
    "adaptive-epoch": AdaptiveEpochAnnealing,
    "adaptive-step": AdaptiveStepAnnealing,
    "temperature": CosineTemperature,
}
