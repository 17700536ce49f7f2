"""The rows of a batch whose views a process computes. Every process draws random numbers for the whole batch."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Int
from torch import Tensor

from annulus.device.distributed import local


class BatchShare(NamedTuple):
    """Some rows of a batch, ascending, and the number of images of the whole batch."""

    rows: Int[Tensor, "v"]
    batch: int


def whole(batch: int) -> BatchShare:
    """All images of a batch."""
    return BatchShare(torch.arange(batch), batch)


def share(batch: int) -> BatchShare:
    """This process's rows of a batch, by `local`.

    Raises:
        InputError: if the batch size is not a multiple of the number of processes.
    """
    return BatchShare(local(torch.arange(batch)), batch)


def rows_in(shares: Sequence[BatchShare]) -> Int[Tensor, "k"]:
    """The union of the rows of several shares of a batch, ascending."""
    return torch.cat([share.rows for share in shares]).unique()
