"""Annealing: progress of the negatives from all other columns (0) to the sampler's own set (1).

Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").
"""

import math
from collections import deque
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt, Le

from annulus.errors import InputError
from annulus.settings import Section, Steps

PartOfTraining = Annotated[float, Gt(0), Le(1)]


class Annealing(Section):
    """Base of all policies. `begin` gives what a run moves; a policy without a memory is its own."""

    watches_loss: ClassVar = False  # whether `after_step` must see every loss, which on a GPU waits for the step
    watches_accuracy: ClassVar = False  # whether `after_epoch` must see the validation accuracy

    def begin(self) -> "Annealing | AdaptiveProgress":
        """The policy at the start of training."""
        return self

    def progress(self, training: float) -> float:
        """Progress in [0, 1] when this share of training, in [0, 1), is done."""
        raise NotImplementedError

    def after_step(self, loss_nats: float) -> None:
        """Let the policy see a training loss."""

    def after_epoch(self, validation_percent: float | None) -> None:
        """Let the policy see a validation accuracy."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the saved policy stopped."""


@dataclass(frozen=True)
class ConstantAnnealing(Annealing):
    """The sampler's own set from the start.

    Source: Wu et al. 2020, arXiv:2010.02037, Appendix E ("Exploring annealing policies").

    >>> annulus.negatives.ConstantAnnealing().progress(training=0.0)
    1.0
    """

    def progress(self, training: float) -> float:
        return 1.0


@dataclass(frozen=True)
class LinearAnnealing(Annealing):
    """In a straight line until this share of training is done.

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
    """In equal steps until this share of training is done.

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
    """One `delta` further each epoch whose validation accuracy beats the mean of its last `window` values.

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
    """One `delta` further each step whose training loss is below the mean of its last `window` values.

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


class AdaptiveProgress:
    """One `delta` further when what is watched is better than the mean of its last `window` values, and not otherwise.

    The loss is watched after each step, the validation accuracy after each epoch. The paper prints a move back where
    the value is no better; here progress holds.
    """

    def __init__(self, delta: float, window: int, watches: Literal["loss", "accuracy"]) -> None:
        self.delta = delta
        self.watches_loss, self.watches_accuracy = watches == "loss", watches == "accuracy"
        self.reached = 0.0
        self.recent: deque[float] = deque(maxlen=window)

    def progress(self, training: float) -> float:
        return self.reached

    def after_step(self, loss_nats: float) -> None:
        if self.watches_loss:
            self._observe(-loss_nats)

    def after_epoch(self, validation_percent: float | None) -> None:
        if self.watches_accuracy:
            if validation_percent is None:
                raise InputError("validation_percent None: adaptive annealing by epochs waits for an accuracy; give it")
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
}
