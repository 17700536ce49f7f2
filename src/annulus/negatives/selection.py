"""Columns of scores that were selected for each query: negatives and neighbours alike."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from annulus.errors import InputError
from annulus.negatives.own import SelfIndex, own_columns
from annulus.negatives.scores import Given, Scores


@dataclass(frozen=True)
class Selection:
    """The selected columns of each query.

    `index` holds column numbers, and False in `mask` leaves that place out; a mask of None leaves out nothing. Without
    an index every column is selected, in order, but for the query's `own` and what the mask leaves out.

    >>> scores = torch.tensor([[9.0, 3.0, 2.0, 1.0]])
    >>> chosen = annulus.Selection(torch.tensor([[1, 3]]), mask=torch.tensor([[True, False]]))
    >>> chosen.gather(scores)
    tensor([[3., -inf]])
    >>> chosen.counts(scores)
    tensor([1])
    """

    index: Int[Tensor, "b k"] | None
    mask: Bool[Tensor, "b k"] | None = None
    own: SelfIndex = None

    def gather(self, scores: Float[Tensor, "b n"]) -> Float[Tensor, "b k"]:
        """The scores of the selected columns; -inf, which adds nothing to a softmax, at places that are left out."""
        queries = next((len(one) for one in (self.index, self.mask, self.own) if one is not None), None)
        if not isinstance(scores, Tensor) or scores.ndim != 2 or queries not in (None, len(scores)):
            shape = f"of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
            rows = "a row per query" if queries is None else f"a row for each of {queries} queries"
            raise InputError(f"scores are {shape}; give the tensor that was selected from, {rows}")
        return gather(Given(scores), self)[0]

    def counts(self, scores: Num[Tensor, "b n"]) -> Int[Tensor, "b"]:
        """Number of selected columns for each query; a repeated column counts as often as it is selected."""
        if self.mask is not None:
            return (self.mask if self.index is not None else self.marked(scores)).sum(dim=1)
        columns = scores.shape[1] if self.index is None else self.index.shape[1]
        every = torch.full((len(scores),), columns, device=scores.device)
        return every if self.own is None else every - (self.own.view(len(scores), -1) >= 0).sum(dim=1)

    def marked(self, scores: Num[Tensor, "b n"]) -> Bool[Tensor, "b n"]:
        """Mask of the selected columns among all."""
        if self.index is None:
            if self.own is None and self.mask is not None:
                return self.mask
            others = ~own_columns(scores, self.own)
            return others if self.mask is None else others & self.mask
        # A place that is left out may repeat a selected column: a sum keeps that column, whatever the order.
        return self.occurrences(scores) > 0

    def occurrences(self, scores: Num[Tensor, "b n"]) -> Int[Tensor, "b n"]:
        """The number of times that each column stands in the index, without the places that are left out."""
        kept = torch.ones_like(self.index, dtype=torch.int32) if self.mask is None else self.mask.int()
        return torch.zeros_like(scores, dtype=torch.int32).scatter_add_(1, self.index, kept)


def gather(scores: Scores, *selections: Selection) -> list[Float[Tensor, "b _"]]:
    """`Selection.gather` of each, by one gather and so by one backward."""
    listed = [one.index for one in selections if one.index is not None]
    index = torch.cat(listed, dim=1) if listed else None
    columns: list[Tensor | None] = [None] * len(selections)
    if len(listed) == len(selections):
        chosen = scores.gather(index)
    else:
        without = [place for place, one in enumerate(selections) if one.index is None]
        own = next((selections[place].own for place in without if selections[place].own is not None), None)
        every, chosen = scores.every(own, index)
        for place in without:
            columns[place] = every
    found = iter(() if chosen is None else chosen.split([each.shape[1] for each in listed], dim=1))
    columns = [next(found) if each is None else each for each in columns]
    return [
        each if one.mask is None else each.masked_fill(~one.mask, -torch.inf)
        for each, one in zip(columns, selections, strict=True)
    ]
