"""Losses that bound no information, and what is reported in the place of their bound."""

from collections.abc import Callable
from dataclasses import replace

from jaxtyping import Float, Int
from torch import Tensor

from annulus.bounds.bound import Bound, Estimate
from annulus.bounds.infonce import infonce, infonce_ceiling


class Loss(Bound):
    """Base class of losses that are no bound, which need `loss` alone: what is reported is InfoNCE of the same scores.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Decoupled(annulus.bounds.Loss):  # Yeh et al. 2022, arXiv:2110.06848: the positive is no candidate
    ...     def loss(self, positives, negatives, training=0.0):
    ...         return (negatives.logsumexp(dim=1) - positives[:, 0]).mean()
    >>> index, scores = torch.arange(8), 20 * torch.eye(8)  # each query finds its own column
    >>> config = annulus.ContrastConfig(bound=Decoupled())
    >>> contrast = annulus.Contrast(config, images=8, seed=0, device=torch.device("cpu"))
    >>> estimate = contrast(scores, index, self_index=index)
    >>> estimate.loss, estimate.bound_nats  # log 7 - 20, and log 8
    (tensor(-18.0541), tensor(2.0794))
    """

    def ceiling(self, positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], training: float) -> Float[Tensor, ""]:
        return infonce_ceiling(positives, negatives)

    def estimate(
        self,
        positives: Float[Tensor, "b p"],
        negatives: Float[Tensor, "b k"],
        training: float,
        counts: Int[Tensor, "b"],
        scores: Callable[[], Float[Tensor, "b n"]],
        in_denominator: bool = True,
    ) -> Estimate:
        found = super().estimate(positives, negatives, training, counts, scores, in_denominator)
        return replace(found, bound_nats=found.ceiling_nats - infonce(positives.detach(), negatives.detach()))
