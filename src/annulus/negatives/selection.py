"""Columns of scores that were selected for each query: negatives and neighbours alike."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor


@dataclass(frozen=True)
class Selection:
    """The selected columns of each query.

    `index` holds column numbers; None selects every column, in order. False in `mask` leaves that place out; None
    leaves out nothing.
    """

    index: Int[Tensor, "b k"] | None
    mask: Bool[Tensor, "b k"] | None = None

    def gather(self, scores: Float[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        """The scores of the selected columns; -inf, which adds nothing to a softmax, at places that are left out."""
        return gather(scores, self)[0]

    def marked(self, scores: Num[Tensor, "b n"]) -> Bool[Tensor, "b n"]:
        """Which of all columns are selected."""
        if self.index is None:
            return torch.ones_like(scores, dtype=torch.bool) if self.mask is None else self.mask
        counts = torch.zeros_like(scores, dtype=torch.int32)
        kept = torch.ones_like(self.index, dtype=torch.int32) if self.mask is None else self.mask.int()
        # A place that is left out may repeat a selected column: a sum keeps that column, whatever the order.
        return counts.scatter_add_(1, self.index, kept) > 0


def gather(scores: Float[Tensor, "b n"], *selections: Selection) -> list[Float[Tensor, "b _"]]:
    """`Selection.gather` of each, by one gather: its backward fills one tensor of the size of `scores`, not several."""
    listed = [one.index for one in selections if one.index is not None]
    found = iter(())
    if listed:
        found = iter(scores.gather(1, torch.cat(listed, dim=1)).split([index.shape[1] for index in listed], dim=1))
    columns = [scores if one.index is None else next(found) for one in selections]
    return [
        each if one.mask is None else each.masked_fill(~one.mask, -torch.inf)
        for each, one in zip(columns, selections, strict=True)
    ]
