"""The linear probe's layer: scaling of features, scores, threads and state."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.device import threads

ROWS_AT_ONCE = 4096
SMALL_DIM = 4096  # pooled features; maps have more


@runtime_checkable
class Resumable(Protocol):
    """Storage of a fit's state, such as `annulus.running.checkpoint.Checkpoint` (which needs Linux's locks)."""

    @property
    def due(self) -> bool:
        """True if it is time for a save."""

    def load(self) -> dict[str, Any] | None:
        """Returns the last saved state, or None."""

    def save(self, state: Mapping[str, Any]) -> None:
        """Replaces the state: tensors, numbers, and lists and dicts of them."""


class Probe(nn.Module):
    """One linear layer on flattened features, each dimension shifted by `mean` and divided by `std`.

    Weights start at zero, so the first loss is log(classes), without random numbers.
    """

    def __init__(self, mean: Float[Tensor, "d"], std: Float[Tensor, "d"], classes: int) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("std", std)
        self.weight = nn.Parameter(torch.zeros(classes, len(mean), dtype=mean.dtype, device=mean.device))
        self.bias = nn.Parameter(torch.zeros(classes, dtype=mean.dtype, device=mean.device))

    def forward(self, features: Float[Tensor, "b ..."]) -> Float[Tensor, "b c"]:
        """Scores; their softmax is the class distribution."""
        return F.linear((features.flatten(1) - self.mean) / self.std, self.weight, self.bias)


def standardised(features: Float[Tensor, "n ..."], classes: int) -> Probe:
    """A probe that scales every dimension to mean 0 and variance 1 over these features.

    A dimension is set to 0 if its deviation is at most a millionth of the largest one.
    """
    flat = features.flatten(1)
    mean, std = _moments(flat)
    return Probe(mean, torch.where(std > 1e-6 * std.max(), std, torch.inf), classes)


def unchanged(dim: int, classes: int, device: torch.device) -> Probe:
    """A probe of unscaled features."""
    return Probe(torch.zeros(dim, device=device), torch.ones(dim, device=device), classes)


@torch.no_grad()
def predict(probe: Probe, features: Float[Tensor, "n ..."]) -> Float[Tensor, "n c"]:
    """Scores of cached features, on the CPU."""
    device = probe.weight.device
    return torch.cat([probe(chunk.to(device).float()).cpu() for chunk in features.split(ROWS_AT_ONCE)])


def _moments(flat: Float[Tensor, "n d"]) -> tuple[Float[Tensor, "d"], Float[Tensor, "d"]]:
    """Mean and standard deviation over rows, in pieces, since float16 maps are too large to convert at once."""
    pieces = flat.split(ROWS_AT_ONCE)
    mean = sum(piece.sum(dim=0, dtype=torch.double) for piece in pieces) / len(flat)
    square = sum((piece.double() - mean).square().sum(dim=0) for piece in pieces) / len(flat)
    return mean.float(), square.sqrt().float()


def few_threads(dim: int) -> AbstractContextManager[None]:
    """Context with one thread on the CPU for small features, whose steps are too short for several threads.

    On a busy machine two threads waited for each other most of the time: 100 epochs of 4,000 x 512 features took 27 s
    instead of 1.2 s.
    """
    return threads(1 if dim <= SMALL_DIM else torch.get_num_threads())
