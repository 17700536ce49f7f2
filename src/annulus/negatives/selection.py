"""`Selection`: the selected columns of scores for each query, negatives or neighbours."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int, Num
from torch import Tensor

from annulus.errors import InputError
from annulus.negatives.own import SelfIndex, own_columns
from annulus.negatives.scores import Scores, StoredScores


@dataclass(frozen=True)
class Selection:
    """The selected columns of each query.

    `index` holds column numbers, and False in `mask` omits that place; a mask of None omits nothing. If `index` is
    None, all columns are selected in order, except the query's `own` and the columns that the mask omits.

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
        """The scores of the selected columns; -inf, which adds nothing to a softmax, at omitted places."""
        queries = next((len(part) for part in (self.index, self.mask, self.own) if part is not None), None)
        if not isinstance(scores, Tensor) or scores.ndim != 2 or queries not in (None, len(scores)):
            shape = f"of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else f"a {type(scores).__name__}"
            rows = "a row per query" if queries is None else f"a row for each of {queries} queries"
            raise InputError(f"scores are {shape}; give the tensor of the selection, {rows}")
        return gather(StoredScores(scores), self)[0]

    def counts(self, scores: Num[Tensor, "b n"]) -> Int[Tensor, "b"]:
        """Number of selected places for each query, so a repeated column counts several times."""
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
        # An omitted place may repeat a selected column. A sum keeps that column, in any order.
        return self.occurrences(scores) > 0

    def occurrences(self, scores: Num[Tensor, "b n"]) -> Int[Tensor, "b n"]:
        """The number of times that each column occurs in the index, without omitted places."""
        ones = torch.ones_like(self.index, dtype=torch.int32) if self.mask is None else self.mask.int()
        return torch.zeros_like(scores, dtype=torch.int32).scatter_add_(1, self.index, ones)


def gather(scores: Scores, *selections: Selection) -> list[Float[Tensor, "b _"]]:
    """`Selection.gather` of several selections, by one gather and one backward."""
    listed = [selection.index for selection in selections if selection.index is not None]
    index = torch.cat(listed, dim=1) if listed else None
    columns: list[Tensor | None] = [None] * len(selections)
    if len(listed) == len(selections):
        chosen = scores.gather(index)
    else:
        without = [place for place, selection in enumerate(selections) if selection.index is None]
        own = next((selections[place].own for place in without if selections[place].own is not None), None)
        every, chosen = scores.every(own, index)
        for place in without:
            columns[place] = every
    parts = iter(() if chosen is None else chosen.split([index.shape[1] for index in listed], dim=1))
    columns = [next(parts) if some is None else some for some in columns]
    return [
        some if selection.mask is None else some.masked_fill(~selection.mask, -torch.inf)
        for some, selection in zip(columns, selections, strict=True)
    ]
