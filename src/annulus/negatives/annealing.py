"""How far the negatives are on their way from the whole memory (0) to the sampler's own set (1)."""

import math
from collections import deque
from typing import Any

from annulus.config.negatives import AdaptiveEpochAnneal, AdaptiveStepAnneal, AnnealParams, LinearAnneal, StepAnneal


class Annealing:
    """Progress in [0, 1] over training, by one of the policies of ring.md 5.2.

    The adaptive ones move one `delta` further when things go well, and hold otherwise (the paper prints
    a move in both cases; ring.md section 6, 22). What went well is measured against the mean of the last
    `window` values: training loss each step, or validation accuracy each epoch.
    """

    def __init__(self, policy: AnnealParams) -> None:
        self.policy = policy
        self.reached = 0.0  # adaptive policies alone
        self.recent: deque[float] = deque(maxlen=getattr(policy, "window", 1))

    def progress(self, trained: float) -> float:
        """Progress when this share of training, in [0, 1], is done."""
        match self.policy:
            case StepAnneal(until=until, steps=steps):  # before LinearAnneal, whose subclass it is
                return min(math.floor(trained / until * steps) / steps, 1.0)
            case LinearAnneal(until=until):
                return min(trained / until, 1.0)
            case AdaptiveEpochAnneal():
                return self.reached
        return 1.0

    @property
    def watches_loss(self) -> bool:
        """Whether `after_step` must see every loss (which on a GPU waits for the step)."""
        return isinstance(self.policy, AdaptiveStepAnneal)

    @property
    def watches_accuracy(self) -> bool:
        """Whether `after_epoch` must see the validation accuracy."""
        return isinstance(self.policy, AdaptiveEpochAnneal) and not self.watches_loss

    def after_step(self, loss_nats: float) -> None:
        if self.watches_loss:
            self._observe(-loss_nats)

    def after_epoch(self, validation_percent: float | None) -> None:
        if self.watches_accuracy:
            assert validation_percent is not None  # Training refuses this policy without a validation part
            self._observe(validation_percent)

    def _observe(self, score: float) -> None:
        if self.recent and score > sum(self.recent) / len(self.recent):
            self.reached = min(self.reached + self.policy.delta, 1.0)
        self.recent.append(score)

    def state_dict(self) -> dict[str, Any]:
        return {"reached": self.reached, "recent": list(self.recent)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.reached = state["reached"]
        self.recent.clear()
        self.recent.extend(state["recent"])
