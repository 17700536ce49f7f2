"""Sigmoid loss: a binary decision for each candidate, with a learned scale and bias."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from annotated_types import Ge, Le
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import logsigmoid

from annulus.bounds.bound import Bound, Estimate, checked_scores, present
from annulus.bounds.infonce import infonce, infonce_ceiling


def sigmoid(
    positive: Float[Tensor, "b"], negatives: Float[Tensor, "b k"], bias: Float[Tensor, ""]
) -> Float[Tensor, ""]:
    """Binary cross-entropy of the positive against its negatives, summed over these, with logits score + bias.

    It is (1 + k) log 2 if all logits are 0, and does not bound information. `binary_nce` is the same with a bias from
    the partition function.

    Source: Zhai et al. 2023, arXiv:2303.15343, Section 3 and Algorithm 1.

    >>> annulus.bounds.sigmoid(torch.zeros(8), torch.zeros(8, 15), bias=torch.tensor(0.0))  # 16 log 2
    tensor(11.0904)
    """
    return -(logsigmoid(positive + bias) + logsigmoid(-negatives - bias).sum(dim=1)).mean()


@dataclass(frozen=True)
class Sigmoid(Bound):
    """`sigmoid` of scores times a learned scale, plus a learned bias that starts at `bias`.

    The scale starts at 1, so the method's temperature is the first temperature: 0.1 in the paper, with bias -10. Both
    are weights of the method, for the same optimiser. The reported bound is InfoNCE of the scores.

    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> contrast = annulus.ContrastConfig(bound=annulus.bounds.Sigmoid(bias=-10.0), negatives=64)
    >>> method = annulus.IR.create(network, images=100, dim=16, contrast=contrast, temperature=0.1)
    >>> [name for name, _ in method.named_parameters() if "bound" in name]
    ['contrasts.0.bound.log_scale', 'contrasts.0.bound.bias']
    """

    bias: Annotated[float, Ge(-100), Le(100)]
    neighbours: ClassVar = "refused"

    def begin(self) -> "LearnedSigmoid":
        return LearnedSigmoid(self.bias)


class LearnedSigmoid(nn.Module):
    """`Sigmoid` during training, with its scale and bias."""

    neighbours = Sigmoid.neighbours

    def __init__(self, bias: float) -> None:
        super().__init__()
        self.log_scale = nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.tensor(bias))

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
        scale, absent = self.log_scale.exp(), negatives.isneginf()  # whose product with the scale has no gradient
        scaled = (scale * negatives.masked_fill(absent, 0)).masked_fill(absent, -torch.inf)
        loss = sigmoid(scale * positives[:, 0], scaled, self.bias)
        ceiling = infonce_ceiling(present(positives), counts)
        reached = ceiling - infonce(positives.detach(), negatives.detach())
        return Estimate(loss, loss.detach(), reached, ceiling)
