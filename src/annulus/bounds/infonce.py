"""InfoNCE: a softmax over one query's candidates."""

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import logsigmoid


def present(scores: Float[Tensor, "b k"]) -> Int[Tensor, "b"]:
    """How many scores of each query are not absent."""
    return (scores != -torch.inf).sum(dim=1)


def log_sum(negatives: Float[Tensor, "*b k"]) -> Float[Tensor, "*b"]:
    """logsumexp over the last axis. With nothing present it is hugely negative, and its gradient 0 rather than NaN."""
    return negatives.clamp(min=torch.finfo(negatives.dtype).min).logsumexp(dim=-1)


def infonce(positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"]) -> Float[Tensor, ""]:
    """-log of the softmax's mass on the positives, among 1 + k candidates where there is one positive.

    At chance log(1 + k/p): log 2 for one positive and one negative. log(1 + k) minus the loss bounds mutual
    information from below. Never negative, in any precision.

    Source: van den Oord et al. 2018, eq. 4; mutualinfo section 2 (IR-nce, whose K counts the positive too, and
    X + neighbours, which sums the positives inside the log).
    """
    # The log odds of positives against negatives keep the small losses that a difference of logsumexps would round off.
    return -logsigmoid(positives.logsumexp(dim=1) - log_sum(negatives)).mean()


def infonce_ceiling(
    positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], eqco_alpha: float | None = None
) -> Float[Tensor, ""]:
    """log(1 + k/p) for numbers of positives and negatives: log(1 + k) without neighbours.

    `eqco_alpha` stands for k where `margin` shifted the negatives: log(1 + eqco_alpha) without neighbours.

    Source: mutualinfo section 3, 2; eqco section 3, 6 and 7.
    """
    total = negatives if eqco_alpha is None else eqco_alpha
    return (total / positives).log1p().mean()
