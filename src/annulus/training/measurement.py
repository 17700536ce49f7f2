"""Loss, bound and gradients of each step, and their means over an epoch."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.distributed import mean_
from annulus.files.results import Number
from annulus.methods.step import Step
from annulus.negatives.ranks import kept_shares
from annulus.training.loop import Observer, Training


class Measurement(Observer):
    """Loss, bound and ceiling in nats; mean and mean square of the norms of the queries' gradients."""

    def __init__(self, batches: int, device: torch.device) -> None:
        self.steps = torch.zeros(batches, 5, device=device)  # one row per step of this epoch

    @property
    def losses(self) -> Float[Tensor, "batches"]:
        """The losses of this epoch's steps, in nats."""
        return self.steps[:, 0]

    def after_step(self, training: Training, index: Int[Tensor, "all"], step: Step) -> None:
        # The loss is a mean over queries: times their number, it has a query's own gradient (arXiv:2010.01929, eq. 11).
        norms = step.queries.grad.norm(dim=1) * len(step.queries)
        estimate = step.estimate
        numbers = [estimate.loss_nats, estimate.bound_nats, estimate.ceiling_nats, norms.mean(), norms.square().mean()]
        mean_(torch.stack(numbers, out=self.steps[training.batch - 1]))  # over all processes, in place

    def after_epoch(self, training: Training, row: dict[str, Number]) -> None:
        loss, bound, ceiling, gradient, square = self.steps.mean(dim=0).tolist()
        inner, outer = kept_shares(training.settings.sampler.shares, training.progress.annealing)
        row |= {
            "loss_nats": loss,
            "bound_nats": bound,
            "ceiling_nats": ceiling,
            "gradient_norm": gradient,  # of the loss by a query: mean and standard deviation over this epoch's queries
            "gradient_norm_std": max(square - gradient**2, 0.0) ** 0.5,
            "learning_rate": training.optimizer.param_groups[0]["lr"],  # of the last step
            "inner_share": inner,
            "outer_share": outer,
        }

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.steps.copy_(state["steps"])
