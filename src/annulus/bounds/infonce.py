"""InfoNCE: a softmax over one query's candidates."""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import logsigmoid

from annulus.bounds.bound import Bound, checked_scores
from annulus.bounds.eqco import margin
from annulus.settings import Positive


def log_sum(negatives: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
    """logsumexp over the last axis. If all scores are absent, it is hugely negative, and its gradient 0 and not NaN."""
    return _LogSum.apply(negatives)


class _LogSum(Function):
    """logsumexp and its gradient in few passes over the negatives, the largest tensor of a step."""

    generate_vmap_rule = True

    @staticmethod
    def forward(negatives: Tensor) -> Tensor:
        return negatives.logsumexp(dim=-1).clamp(min=torch.finfo(negatives.dtype).min)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs, output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        negatives, log_sum = ctx.saved_tensors
        shares = (negatives - log_sum[..., None]).exp_()
        # For a second derivative, the graph of the first one needs the shares unchanged.
        return (shares.mul if torch.is_grad_enabled() else shares.mul_)(gradient[..., None])


def infonce(positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"]) -> Float[Tensor, ""]:
    """-log of the softmax's mass on p positives, among p + k candidates.

    At chance log(1 + k/p): log 2 for one positive and one negative. log(1 + k) minus the loss bounds mutual information
    from below. The loss is at least 0. Half precision is computed in float32, and so is the loss.

    Source: van den Oord et al. 2018, arXiv:1807.03748, Eq. 4; Wu et al. 2020, arXiv:2005.13149, Eq. 5 (its K counts the
    positive too) and Section 4.3 (neighbours, summed inside the log).

    Raises:
        InputError: if the arguments are not tables of scores.

    >>> scores = torch.zeros(8, 16)  # chance
    >>> annulus.bounds.infonce(scores[:, :1], scores[:, 1:])  # log 16
    tensor(2.7726)
    """
    positives, negatives = checked_scores(positives, negatives)
    # The log odds of positives against negatives keep small losses; a difference of logsumexps would round them off.
    own = positives.squeeze(1) if positives.shape[1] == 1 else positives.logsumexp(dim=1)
    return -logsigmoid(own - log_sum(negatives)).mean()


def infonce_ceiling(
    positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], eqco_alpha: float | None = None
) -> Float[Tensor, ""]:
    """log(1 + k/p) for p positives and k negatives: log(1 + k) without neighbours.

    If `margin` shifted the negatives, `eqco_alpha` replaces k: log(1 + eqco_alpha) without neighbours.

    Source: Wu et al. 2020, arXiv:2005.13149, Eq. 5; Zhu et al. 2020, arXiv:2010.01929, Eq. 6.
    """
    total = negatives if eqco_alpha is None else eqco_alpha
    return (total / positives).log1p().mean()


@dataclass(frozen=True)
class InfoNCE(Bound):
    """`infonce`. `eqco_alpha`: the number of negatives that EqCo's margin simulates; None: no margin.

    >>> scores = torch.zeros(8, 16)
    >>> annulus.bounds.InfoNCE().loss(scores[:, :1], scores[:, 1:])
    tensor(2.7726)
    >>> annulus.bounds.InfoNCE(eqco_alpha=65536.0).loss(scores[:, :1], scores[:, 1:])  # log 65537
    tensor(11.0904)
    """

    eqco_alpha: Positive | None = None
    neighbours: ClassVar = "positives"

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return infonce(positives, margin(negatives, self.eqco_alpha))

    def ceiling(
        self, positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], training: float = 0.0
    ) -> Float[Tensor, ""]:
        return infonce_ceiling(positives, negatives, self.eqco_alpha)

    def warnings(self, negatives: int, queries: int) -> list[str]:
        if self.eqco_alpha is None or self.eqco_alpha <= negatives:
            return []
        excess = math.log((1 + self.eqco_alpha) / (1 + negatives))
        return [
            f"eqco_alpha {self.eqco_alpha:g} is more than the {negatives} negatives: the estimate may exceed the "
            f"information by up to log((1 + eqco_alpha)/(1 + K)) = {excess:.3g} nats"
        ]
