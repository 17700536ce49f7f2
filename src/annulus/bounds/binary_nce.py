"""Noise-contrastive estimation: a binary decision for each candidate."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from annulus.bounds.bound import Bound, Estimate, checked_scores, in_full, present
from annulus.bounds.infonce import infonce, infonce_ceiling
from annulus.bounds.partition import Normaliser, PartitionFunction
from annulus.settings import Positive, Share


def binary_nce(
    positive: Float[Tensor, "b"],
    negatives: Float[Tensor, "b k"],
    log_partition: Float[Tensor, "b"] | Float[Tensor, ""],
    columns: int,
) -> Float[Tensor, ""]:
    """Binary cross-entropy of the positive against k draws of uniform noise over `columns`, summed over the negatives.

    A candidate of P = exp(score)/Z is data with probability P/(P + k/columns). If that is 1/2 for all candidates, the
    loss is (1 + k) log 2. It is not a bound on information: report InfoNCE of the same scores.

    Source: Wu et al. 2018, arXiv:1805.01978, Section 3.2, in the form of their authors' later code.
    """
    counts = present(negatives).clamp(min=1).to(negatives.dtype)
    even = log_partition + (counts / columns).log()  # the score at which data and noise are equally likely
    return -(logsigmoid(positive - even) + logsigmoid(even[:, None] - negatives).sum(dim=1)).mean()


@dataclass(frozen=True)
class BinaryNCE(Bound):
    """`binary_nce` with the partition function of `PartitionFunction`; the original IR's objective.

    >>> bound = annulus.bounds.BinaryNCE(normaliser="first-batch", constant=2.24556, rate=0.99)
    >>> config = annulus.ContrastConfig(bound=bound, negatives=64)
    """

    normaliser: Normaliser
    constant: Positive
    rate: Share
    neighbours: ClassVar = "refused"

    def begin(self) -> "RunningNCE":
        return RunningNCE(PartitionFunction(self.normaliser, self.constant, self.rate))


class RunningNCE(nn.Module):
    """`BinaryNCE` during training, with its estimate of Z. The reported bound is InfoNCE of the same scores."""

    neighbours = BinaryNCE.neighbours

    def __init__(self, partition: PartitionFunction) -> None:
        super().__init__()
        self.partition = partition

    def estimate(
        self,
        positives: Float[Tensor, "b p"],
        negatives: Float[Tensor, "b k"],
        training: float,
        counts: Int[Tensor, "b"],
        scores: Callable[[], Float[Tensor, "b n"]],
        in_denominator: bool = True,
    ) -> Estimate:
        positives, negatives = checked_scores(positives, negatives)
        every = in_full(scores())
        drawn = torch.cat([positives, negatives], dim=1) if self.partition.reads_positives else negatives
        log_partition = self.partition(every, drawn.detach())
        loss = binary_nce(positives[:, 0], negatives, log_partition, every.shape[1])
        ceiling = infonce_ceiling(present(positives), counts)
        reached = ceiling - infonce(positives.detach(), negatives.detach())
        return Estimate(loss, loss.detach(), reached, ceiling)
