"""`Loss`, the base class of losses that do not bound information."""

from collections.abc import Callable
from dataclasses import replace

from jaxtyping import Float, Int
from torch import Tensor

from annulus.bounds.bound import Bound, Estimate
from annulus.bounds.infonce import infonce, infonce_ceiling


class Loss(Bound):
    """Base class of losses that are not bounds. They define `loss` alone; the reported bound is InfoNCE of the scores.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Decoupled(annulus.bounds.Loss):  # Yeh et al. 2022, arXiv:2110.06848: without the positive
    ...     def loss(self, positives, negatives, training=0.0):
    ...         return (negatives.logsumexp(dim=1) - positives[:, 0]).mean()
    >>> index, scores = torch.arange(8), 20 * torch.eye(8)  # each query scores highest with its own column
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
        estimate = super().estimate(positives, negatives, training, counts, scores, in_denominator)
        return replace(estimate, bound_nats=estimate.ceiling_nats - infonce(positives.detach(), negatives.detach()))
