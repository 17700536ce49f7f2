"""Schedules of the learning rate."""

import math
from dataclasses import dataclass
from typing import Annotated, Any

from annotated_types import Gt, Lt

from annulus.errors import InputError
from annulus.settings import Section, Steps

BetweenZeroAndOne = Annotated[float, Gt(0), Lt(1)]


@dataclass(frozen=True)
class ConstantSchedule(Section):
    """A constant rate."""


@dataclass(frozen=True)
class CosineSchedule(Section):
    """A rate that falls to zero along half a cosine."""


@dataclass(frozen=True, kw_only=True)
class MilestoneSchedule(Section):
    """A rate that is multiplied by `factor` at each share of training in `at`."""

    at: list[BetweenZeroAndOne]
    factor: BetweenZeroAndOne

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.at != sorted(set(self.at)):
            raise InputError(f"milestones must rise, got {self.at}")


@dataclass(frozen=True, kw_only=True)
class PlateauSchedule(Section):
    """A rate that is multiplied by `factor` after `patience` epochs without a higher validation accuracy.

    It drops `drops` times at most.
    """

    patience: Steps
    factor: BetweenZeroAndOne
    drops: Steps


Policy = ConstantSchedule | CosineSchedule | MilestoneSchedule | PlateauSchedule
SCHEDULES = {  # by their keys in params.yaml
    "constant": ConstantSchedule,
    "cosine": CosineSchedule,
    "milestones": MilestoneSchedule,
    "plateau": PlateauSchedule,
}


class Schedule:
    """Learning rate over training, with the state of a plateau."""

    def __init__(self, policy: Policy, learning_rate: float, warmup: float) -> None:
        """`warmup` is the share of training over which the rate rises from zero."""
        self.policy = policy
        self.learning_rate = learning_rate
        self.warmup = warmup
        self.best = -math.inf
        self.waited = 0
        self.dropped = 0

    @property
    def watches_accuracy(self) -> bool:
        return isinstance(self.policy, PlateauSchedule)

    def rate(self, trained: float) -> float:
        """The learning rate at this share of training, in [0, 1)."""
        if trained < self.warmup:
            return self.learning_rate * trained / self.warmup
        return self.learning_rate * self._factor((trained - self.warmup) / (1 - self.warmup), trained)

    def _factor(self, since_warmup: float, trained: float) -> float:
        match self.policy:
            case ConstantSchedule():
                return 1.0
            case CosineSchedule():
                return (1 + math.cos(math.pi * since_warmup)) / 2
            case MilestoneSchedule(at=at, factor=factor):
                return factor ** sum(trained >= share for share in at)
            case PlateauSchedule(factor=factor):
                return factor**self.dropped
            case _:
                raise TypeError(f"no schedule is known for {type(self.policy).__name__}")

    def after_epoch(self, validation_percent: float | None) -> None:
        """Observes the epoch's accuracy; a plateau drops the rate after `patience` epochs without a better one."""
        if not self.watches_accuracy:
            return
        assert validation_percent is not None  # the training checks that a plateau has a validation part
        if validation_percent > self.best:
            self.best, self.waited = validation_percent, 0
            return
        self.waited += 1
        if self.waited >= self.policy.patience and self.dropped < self.policy.drops:
            self.dropped, self.waited = self.dropped + 1, 0

    def state_dict(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited, "dropped": self.dropped}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.best, self.waited, self.dropped = state["best"], state["waited"], state["dropped"]
