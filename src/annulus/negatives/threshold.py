"""Exact selection of the columns of a range of ranks on a GPU. Equal scores rank by column, the same on every run.

A range of ranks lies between two thresholds: two scores, and among equal scores two columns. So
`annulus.negatives.bisection` (Triton) lists the members by column without a sort. Plain PyTorch sorts if Triton is not
installed or its kernels do not agree, and for float64. Both return the same columns in the same order.
"""

from functools import partial

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.trust import trusted
from annulus.negatives.own import SelfIndex, own_columns


def select(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """Selects the columns with ranks in [first, last), by column, or the columns at the `picked` places of that list.

    Own columns and columns of NaN rank after all others; equal scores rank by column.
    """
    agrees = _AGREES.get(scores.dtype)
    if agrees is None or not trusted("annulus.negatives.bisection", agrees, scores.device):
        return plain(scores, self_index, first, last, picked)
    return by_kernels(scores, self_index, first, last, picked)


def by_kernels(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """`select` by kernels."""
    from annulus.negatives import bisection  # here, since it needs Triton

    own = torch.empty(0, dtype=torch.int64, device=scores.device) if self_index is None else self_index
    with torch.cuda.device_of(scores):  # Triton starts kernels on the current device
        return bisection.select(scores, own.view(len(scores), -1 if own.numel() else 0), first, last, picked)


def plain(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """`select` by sorting, on any device."""
    ranked_last = own_columns(scores, self_index) | scores.isnan()  # a GPU sorts NaN of either sign apart
    rising = (-scores.detach()).masked_fill(ranked_last, torch.nan)
    members = rising.sort(dim=1, stable=True).indices[:, first:last].sort(dim=1).values
    return members if picked is None else members.gather(1, picked)


def kernels_agree(device: torch.device, dtype: torch.dtype = torch.float32) -> bool:
    """Returns True if the kernels and `plain` select the same: several parts, ties, -inf, NaN and own columns."""
    generator = torch.Generator().manual_seed(0)
    drawn = torch.randn(4, 4609, generator=generator)
    drawn[1], drawn[2] = (4 * drawn[1]).round() / 4, (256 * drawn[2]).round() / 256  # ties by the hundred, and a few
    scores = drawn.masked_fill(drawn < -1, -torch.inf).masked_fill(drawn > 2, torch.nan).to(dtype)
    own = scores.argsort(dim=1)[:, [-1, -200, 0]].masked_fill(torch.eye(4, dtype=torch.bool)[:, :3], -1)
    places = torch.randint(1500, (40, 4), generator=generator).T
    return all(
        torch.equal(
            by_kernels(scores.to(device), own.to(device), *ranks, None if some is None else some.to(device)).cpu(),
            plain(scores, own, *ranks, some),
        )
        for ranks in ((0, 1500), (100, 1600), (3000, 4609))
        for some in (None, places)
    )


_AGREES = {dtype: partial(kernels_agree, dtype=dtype) for dtype in (torch.float32, torch.bfloat16, torch.float16)}
