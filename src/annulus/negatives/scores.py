"""Scores of queries against a memory: all of them to choose by, the chosen ones with a gradient.

The scores are the largest tensor of a step, and each pass over them takes a part of the time of the product that made
them. So the columns of the query's own image are left out in place; few columns of a large memory, chosen without a
look at the scores, are multiplied alone; and the gradient of few chosen ones is no table of mostly zeros.
"""

import math
from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd import Function

from annulus.device.device import without_autocast
from annulus.negatives.own import SelfIndex, own_columns

LARGE, LARGE_ON_CPU = 2**16, 2**14  # rows of a memory, from which on
ADDED = 1 / 12  # or less of them, chosen for each query, are added up faster than a product with a table takes (a CPU)
MULTIPLIED = 1 / 64  # or less of them are multiplied faster than all (a CPU; a GPU, where it was not tried, takes all)


class Scores(ABC):
    """Scores (b, n), and those of them that carry a gradient."""

    @property
    @abstractmethod
    def table(self) -> Float[Tensor, "b n"]:
        """The scores of all columns, without gradient, to be read and not kept: `every` may take it over."""

    @property
    @abstractmethod
    def unread(self) -> Float[Tensor, "b n"]:
        """A stand-in for the table where its shape and device alone are read; it may be zeros that take no memory."""

    @abstractmethod
    def gather(self, index: Int[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        """The scores of some columns, with gradient."""

    @abstractmethod
    def every(
        self, own: SelfIndex, index: Int[Tensor, "b k"] | None = None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k"] | None]:
        """The scores of all columns, with gradient and -inf in the query's own ones; and those of `index`, as they are.

        One gradient of all columns is made for both.
        """


class Given(Scores):
    """Scores that were made already, by whatever made them."""

    def __init__(self, scores: Float[Tensor, "b n"]) -> None:
        self.scores = scores

    @property
    def table(self) -> Float[Tensor, "b n"]:
        return self.scores.detach()

    unread = table

    def gather(self, index: Int[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        return self.scores.gather(1, index)

    def every(
        self, own: SelfIndex, index: Int[Tensor, "b k"] | None = None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k"] | None]:
        chosen = None if index is None else self.gather(index)
        if own is None:
            return self.scores, chosen
        return self.scores.masked_fill(own_columns(self.scores, own), -torch.inf), chosen


class Products(Scores):
    """Dot products of queries with the rows of a memory, which get no gradient.

    They are made in the queries' precision: embeddings are float32 also of networks that are in bfloat16 as a whole,
    with their memory.
    """

    def __init__(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> None:
        self.queries, self.rows = queries, rows.to(queries.dtype)
        self.made: Tensor | None = None

    @property
    def table(self) -> Float[Tensor, "b n"]:
        if self.made is None:
            with without_autocast(self.rows.device):
                self.made = self.queries.detach() @ self.rows.T
        return self.made

    @property
    def unread(self) -> Float[Tensor, "b n"]:
        return self.rows.new_zeros(()).expand(len(self.queries), len(self.rows))

    def gather(self, index: Int[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        alone = self.made is None and self.rows.device.type == "cpu" and _few(index, self.rows, MULTIPLIED)
        return _Chosen.apply(self.queries, self.rows, None if alone else self.table, index)

    def every(
        self, own: SelfIndex, index: Int[Tensor, "b k"] | None = None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k"] | None]:
        table, self.made = self.table, None
        own = None if own is None else own.view(len(own), -1)
        return _Every.apply(self.queries, self.rows, table, own, index)


def _few(index: Int[Tensor, "b k"], rows: Float[Tensor, "n d"], share: float) -> bool:
    """True where the memory is large, and no more than a share of it chosen."""
    large = LARGE_ON_CPU if rows.device.type == "cpu" else LARGE
    return len(rows) >= large and index.shape[1] <= share * len(rows)


class _Chosen(Function):
    """Chosen scores: from the table, or where there is none from the queries and the chosen rows."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, rows: Tensor, table: Tensor | None, index: Tensor) -> Tensor:
        ctx.save_for_backward(rows, index)
        return _multiplied(queries, rows, index) if table is None else table.gather(1, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, index = ctx.saved_tensors
        # A GPU adds to a table in any order.
        if not _few(index, rows, ADDED) and not torch.are_deterministic_algorithms_enabled():
            table = gradient.new_zeros(len(index), len(rows)).scatter_add_(1, index, gradient)
            return table @ rows, None, None, None
        return _added(rows, index, gradient), None, None, None


def _added(
    rows: Float[Tensor, "n d"], index: Int[Tensor, "b k"], weights: Float[Tensor, "b k"]
) -> Float[Tensor, "b d"]:
    """The weighted sum of each query's chosen rows."""
    return F.embedding_bag(index, rows, per_sample_weights=weights, mode="sum")


def _multiplied(
    queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"], index: Int[Tensor, "b k"]
) -> Float[Tensor, "b k"]:
    """Dot products of each query with its chosen rows: the gradient, in the weights, of a product with their sum."""
    with torch.enable_grad():
        weights = queries.new_zeros(index.shape, requires_grad=True)
        (found,) = torch.autograd.grad(_added(rows, index, weights), weights, queries)
    return found


class _Every(Function):
    """The table becomes the result: own columns, padded with -1, are left out in place, without asking the device."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, rows: Tensor, table: Tensor, own: Tensor | None, index: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        ctx.mark_dirty(table)
        ctx.save_for_backward(rows, index)
        chosen = None if index is None else table.gather(1, index)
        if own is not None:
            # Padding stands for another own column, or where there is none, for column 0 as it is.
            last = own.amax(dim=1, keepdim=True)
            places = own.where(own >= 0, last).clamp(min=0)
            table.scatter_(1, places, table.gather(1, places).masked_fill(last >= 0, -math.inf))
        return table, chosen

    @staticmethod
    def backward(ctx: Any, of_every: Tensor, of_chosen: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, index = ctx.saved_tensors
        # Every bound has a gradient of 0 in what is left out.
        gradient = of_every if index is None else of_every.scatter_add(1, index, of_chosen)
        return gradient @ rows, None, None, None, None
