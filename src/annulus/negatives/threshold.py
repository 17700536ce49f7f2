"""The columns of given ranks on a GPU: exact, equal scores by column, and so the same columns on every run.

A set of ranks is a stretch between two thresholds: two scores, and among equal scores two columns. So members can be
found and listed by column without sorting (`annulus.negatives.radix`, in Triton). Where Triton is not installed, and
for float64, plain PyTorch sorts. Both give the same columns in the same order.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.extras import runs_triton
from annulus.negatives.own import SelfIndex, own_columns


def select(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """The columns whose rank is in [first, last), by column, or those at the `picked` places of that list.

    Own columns rank after all others, and equal scores by column. NaN has no rank that means anything.
    """
    if not runs_triton() or scores.dtype == torch.float64:
        return plain(scores, self_index, first, last, picked)
    from annulus.negatives import radix  # it needs Triton

    own = torch.empty(0, dtype=torch.int64, device=scores.device) if self_index is None else self_index
    return radix.select(scores, own.view(len(scores), -1 if own.numel() else 0), first, last, picked)


def plain(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """`select` by sorting, on any device."""
    rising = (-scores.detach()).masked_fill(own_columns(scores, self_index), torch.nan)  # NaN comes last
    members = rising.sort(dim=1, stable=True).indices[:, first:last].sort(dim=1).values
    return members if picked is None else members.gather(1, picked)
