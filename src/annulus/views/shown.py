"""The share of a batch whose views this process makes; every process draws random numbers for the whole batch."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from annulus.device.distributed import local


class Shown(NamedTuple):
    """These rows of a batch, in rising order, of so many."""

    rows: Int[Tensor, "v"]
    batch: int


def whole(batch: int) -> Shown:
    """All images of a batch."""
    return Shown(torch.arange(batch), batch)


def share(batch: int) -> Shown:
    """This process's share of a batch, as `local` gives it.

    Raises:
        InputError: when the batch cannot be shared evenly.
    """
    return Shown(local(torch.arange(batch)), batch)


def seen_in(shown: Sequence[Shown]) -> Int[Tensor, "k"]:
    """The rows of a batch that any of several views shows, in rising order."""
    return torch.cat([each.rows for each in shown]).unique()
