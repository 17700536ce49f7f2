"""`Bound`, the base class of bounds, and `Estimate`, the result of a bound."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from annulus.errors import InputError
from annulus.settings import Section


def present(scores: Float[Tensor, "b k"]) -> Int[Tensor, "b"]:
    """Number of present scores of each query."""
    return scores.shape[1] - scores.isneginf().sum(dim=1, dtype=torch.int32)  # twice as fast as counting with int64


def in_full(scores: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """Converts half precision to float32: float16 ends at 65,504, and so would sums of exponentials on a CPU."""
    return scores.float() if scores.element_size() < 4 else scores


def checked_scores(positives: Tensor, negatives: Tensor) -> tuple[Float[Tensor, "b p"], Float[Tensor, "b k"]]:
    """Checks the scores and converts half precision to float32.

    Raises:
        InputError: unless both are floating-point tensors on one device, with a row per query, and a score in each row.
    """
    for name, value in (("positives", positives), ("negatives", negatives)):
        if not isinstance(value, Tensor) or not value.is_floating_point():
            kind = value.dtype if isinstance(value, Tensor) else type(value).__name__
            raise InputError(
                f"{name} are {kind}; give floating-point scores: selection.gather(scores) returns those of a selection"
            )
    if positives.device != negatives.device:
        raise InputError(
            f"positives on {positives.device}, but negatives on {negatives.device}: move one by .to(device)"
        )
    shapes = tuple(positives.shape), tuple(negatives.shape)
    if positives.ndim != 2 or negatives.ndim != 2 or len(positives) != len(negatives) or 0 in shapes[0] + shapes[1]:
        raise InputError(
            f"positives of shape {shapes[0]} and negatives of shape {shapes[1]}: give both a row per query, and a "
            "score or more in each row"
        )
    return in_full(positives), in_full(negatives)


@dataclass(frozen=True)
class Estimate:
    """Result of a bound on a batch of scores. Only `loss` carries a gradient.

    >>> index, scores = torch.arange(8), 20 * torch.eye(8)  # each query scores highest with its own column
    >>> contrast = annulus.Contrast(annulus.ContrastConfig(), images=8, seed=0, device=torch.device("cpu"))
    >>> estimate = contrast(scores, index, self_index=index)
    >>> estimate.bound_nats, estimate.ceiling_nats  # log 8
    (tensor(2.0794), tensor(2.0794))
    """

    loss: Float[Tensor, ""]  # for the optimiser
    loss_nats: Float[Tensor, ""]  # the same, before a scaling of its gradient
    bound_nats: Float[Tensor, ""]  # lower bound of the mutual information
    ceiling_nats: Float[Tensor, ""]  # largest possible value of the bound

    def __add__(self, other: "Estimate") -> "Estimate":
        """Sums two losses, and averages their bounds and ceilings.

        Source: Wu et al. 2020, arXiv:2005.13149, Lemma 3.1 (CMC).
        """
        return Estimate(
            self.loss + other.loss,
            self.loss_nats + other.loss_nats,
            (self.bound_nats + other.bound_nats) / 2,
            (self.ceiling_nats + other.ceiling_nats) / 2,
        )

    def times(self, weight: float) -> "Estimate":
        """Multiplies the loss by a weight; bound and ceiling stay."""
        return replace(self, loss=self.loss * weight, loss_nats=self.loss_nats * weight)


class Bound(Section):
    """Base class of bounds: a frozen dataclass of settings with a loss of scores and the ceiling of its estimate.

    The bound is the ceiling minus the loss. If that is not a lower bound of information, derive from `Loss`.

    `neighbours` is the role of neighbours: "refused": a query has one positive; "positives": they are positives beside
    the query's own; "candidates": the same, and always in the denominator; "among negatives": neighbours that are
    among the negatives count as positives.

    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Margin(annulus.bounds.Bound):
    ...     margin: float
    ...
    ...     def loss(self, positives, negatives, training=0.0):
    ...         return annulus.bounds.infonce(positives - self.margin, negatives)
    ...
    ...     def ceiling(self, positives, negatives, training=0.0):  # their numbers, of each query
    ...         return (negatives / positives).log1p().mean()
    >>> network = nn.Sequential(nn.Flatten(), nn.Linear(192, 16))
    >>> contrast = annulus.ContrastConfig(bound=Margin(margin=0.1))
    >>> method = annulus.SimCLR.create(network, images=100, dim=16, contrast=contrast)
    """

    neighbours: ClassVar[Literal["refused", "positives", "candidates", "among negatives"]] = "refused"

    def at(self, temperature: float) -> "Bound":
        """The bound for scores that were divided by this temperature: itself, unless a constant of it depends on it."""
        return self

    def begin(self) -> "Bound | nn.Module":
        """The bound at the start of training. A bound with a state between steps returns a module."""
        return self

    def loss(
        self, positives: Float[Tensor, "b p"], negatives: Float[Tensor, "b k"], training: float
    ) -> Float[Tensor, ""]:
        """The loss in nats, mean over queries, at this share of training. A score of -inf is absent.

        The first positive is the query's own.
        """
        raise NotImplementedError(f"{type(self).__name__} has no loss of scores alone: begin() returns its estimator")

    def ceiling(self, positives: Int[Tensor, "b"], negatives: Int[Tensor, "b"], training: float) -> Float[Tensor, ""]:
        """The loss in nats for equal scores, or less, from each query's numbers of positives and negatives."""
        raise NotImplementedError(f"{type(self).__name__} has no ceiling: the loss when all scores are equal")

    def warnings(self, negatives: int, queries: int) -> list[str]:
        """Warnings for these settings with these numbers of negatives and queries, one sentence each."""
        return []

    def gradient_scale(self, training: float) -> float:
        """Factor of the gradient."""
        return 1.0

    def estimate(
        self,
        positives: Float[Tensor, "b p"],
        negatives: Float[Tensor, "b k"],
        training: float,
        counts: Int[Tensor, "b"],
        scores: Callable[[], Float[Tensor, "b n"]],
        in_denominator: bool = True,
    ) -> Estimate:
        """Computes loss, bound and ceiling of these scores; `scores` returns all columns' scores, without gradient.

        `counts`: number of present negatives of each query. The caller knows it, and counting takes as long as the
        loss.

        The first positive is the query's own; the others are neighbours. With `in_denominator`, neighbours are
        candidates too, and the loss is at least 0. Without it, they are only in the numerator, as in the papers: the
        loss is the loss of the query's own positive minus log(sum over positives of exp(score - own score)). It has no
        lower limit. At chance with p positives, the ceiling without neighbours minus this loss is log p, not 0, so it
        is not a bound. In both cases the reported bound has neighbours in the denominator.

        Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3 (RING with s-neighbours).
        """
        ceiling = self.ceiling(present(positives), counts, training)
        loss = self.loss(positives if in_denominator else positives[:, :1], negatives, training)
        reached = loss.detach()
        if not in_denominator and positives.shape[1] > 1:
            loss = loss - (positives.logsumexp(dim=1) - positives[:, 0]).mean()
            reached = self.loss(positives.detach(), negatives.detach(), training)
        scale = self.gradient_scale(training)
        return Estimate(loss if scale == 1 else loss * scale, loss.detach(), ceiling - reached, ceiling)
