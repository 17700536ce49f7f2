"""Scores of queries against a memory. All scores serve the selection; the selected ones carry a gradient.

The scores are the largest tensor of a step, and each pass over them takes a part of the time of their product. So own
columns are masked in place. If few columns of a large memory are selected without the scores, only these are
multiplied. The gradient of few selected columns is not a table of mostly zeros.
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
from annulus.errors import InputError
from annulus.negatives.own import SelfIndex, own_columns

LARGE, LARGE_ON_CPU = 2**16, 2**14  # rows of a large memory, from which on the two shares below apply
ADDED = 1 / 12  # of the rows: up to this share, summing chosen rows is faster than a product with a table (on a CPU)
MULTIPLIED = 1 / 64  # of the rows: up to this share, multiplying chosen rows alone is faster (a CPU; a GPU takes all)


class Scores(ABC):
    """Scores (b, n) of queries with the rows of a memory."""

    @property
    @abstractmethod
    def table(self) -> Float[Tensor, "b n"]:
        """The scores of all columns, without gradient. Do not store the tensor, since `every` may overwrite it."""

    @property
    @abstractmethod
    def unread(self) -> Float[Tensor, "b n"]:
        """A stand-in with the table's shape and device; its numbers may be zeros without memory."""

    @abstractmethod
    def gather(self, index: Int[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        """The scores of some columns, with gradient."""

    @abstractmethod
    def every(
        self, own: SelfIndex, index: Int[Tensor, "b k"] | None = None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k"] | None]:
        """Returns the scores of all columns (the query's own are -inf) and the scores at `index`, with gradient.

        Backward computes one gradient of all columns for both.
        """

    def divided(self, temperature: float) -> "Scores":
        """The same scores divided by a temperature.

        Raises:
            InputError: if the scores have no temperature.
        """
        raise InputError(
            f"{type(self).__name__.lstrip('_')}: these scores have no temperature that could change; take critic: dot "
            "or bilinear, or another anneal than temperature"
        )

    def between(self, index: Int[Tensor, "b"]) -> Float[Tensor, "b n"]:
        """Dot products of these rows with all rows, without gradient.

        Raises:
            InputError: if the scores have no vectors.
        """
        raise InputError("there is no row of each image; take method: ir or pirl, with critic: dot or bilinear")

    def mixed(
        self, first: Int[Tensor, "b s"], second: Int[Tensor, "b s"], share: Float[Tensor, "b s"]
    ) -> Float[Tensor, "b s"]:
        """Scores, with gradient, of the unit vectors along share * row of `first` + (1 - share) * row of `second`.

        Raises:
            InputError: if the scores have no vectors.
        """
        raise InputError("there are no vectors to mix: take method: ir, pirl, moco or moco-jigsaw, with critic: dot")

    def mixed_with_query(self, index: Int[Tensor, "b s"], share: Float[Tensor, "b s"]) -> Float[Tensor, "b s"]:
        """`mixed` for share * the query + (1 - share) * row of `index`; the mixed query is a constant.

        Raises:
            InputError: if the scores have no vectors.
        """
        raise InputError("there are no vectors to mix: take method: ir, pirl, moco or moco-jigsaw, with critic: dot")


class StoredScores(Scores):
    """Scores in a tensor that the caller computed."""

    def __init__(self, scores: Float[Tensor, "b n"]) -> None:
        self.scores = scores

    @property
    def table(self) -> Float[Tensor, "b n"]:
        return self.scores.detach()

    unread = table

    def divided(self, temperature: float) -> "StoredScores":
        return StoredScores(self.scores / temperature)

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
    """Dot products of queries with the rows of a memory. The rows have no gradient.

    They are computed in the queries' precision: embeddings are float32, although network and memory may be bfloat16.
    """

    def __init__(self, queries: Float[Tensor, "b d"], rows: Float[Tensor, "n d"]) -> None:
        self.queries, self.rows = queries, rows.to(queries.dtype)
        self._table: Tensor | None = None

    @property
    def table(self) -> Float[Tensor, "b n"]:
        if self._table is None:
            with without_autocast(self.rows.device):
                self._table = self.queries.detach() @ self.rows.T
        return self._table

    @property
    def unread(self) -> Float[Tensor, "b n"]:
        return self.rows.new_zeros(()).expand(len(self.queries), len(self.rows))

    def divided(self, temperature: float) -> "Products":
        return Products(self.queries / temperature, self.rows)

    def between(self, index: Int[Tensor, "b"]) -> Float[Tensor, "b n"]:
        return self.rows[index] @ self.rows.T

    def mixed(
        self, first: Int[Tensor, "b s"], second: Int[Tensor, "b s"], share: Float[Tensor, "b s"]
    ) -> Float[Tensor, "b s"]:
        mixed = share[..., None] * self.rows[first] + (1 - share[..., None]) * self.rows[second]
        scores = self.gather(torch.cat([first, second], dim=1)).chunk(2, dim=1)
        return (share * scores[0] + (1 - share) * scores[1]) / mixed.norm(dim=2)

    def mixed_with_query(self, index: Int[Tensor, "b s"], share: Float[Tensor, "b s"]) -> Float[Tensor, "b s"]:
        query = F.normalize(self.queries.detach(), dim=1)
        mixed = share[..., None] * query[:, None] + (1 - share[..., None]) * self.rows[index]
        own = (self.queries * query).sum(dim=1, keepdim=True)
        return (share * own + (1 - share) * self.gather(index)) / mixed.norm(dim=2)

    def gather(self, index: Int[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        alone = self._table is None and self.rows.device.type == "cpu" and _few(index, self.rows, MULTIPLIED)
        return _Chosen.apply(self.queries, self.rows, None if alone else self.table, index)

    def every(
        self, own: SelfIndex, index: Int[Tensor, "b k"] | None = None
    ) -> tuple[Float[Tensor, "b n"], Float[Tensor, "b k"] | None]:
        table, self._table = self.table, None
        own = None if own is None else own.view(len(own), -1)
        return _Every.apply(self.queries, self.rows, table, own, index)


def _few(index: Int[Tensor, "b k"], rows: Float[Tensor, "n d"], share: float) -> bool:
    """Returns True if the memory is large and at most this share of its rows is chosen."""
    large = LARGE_ON_CPU if rows.device.type == "cpu" else LARGE
    return len(rows) >= large and index.shape[1] <= share * len(rows)


class _Chosen(Function):
    """Chosen scores: from the table, or without a table from the queries and the chosen rows."""

    @staticmethod
    def forward(ctx: Any, queries: Tensor, rows: Tensor, table: Tensor | None, index: Tensor) -> Tensor:
        ctx.save_for_backward(rows, index)
        return _multiplied(queries, rows, index) if table is None else table.gather(1, index)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        rows, index = ctx.saved_tensors
        # scatter_add_ on a GPU adds in any order.
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
    """Dot products of each query with its chosen rows: the gradient, by the weights, of its product with their sum."""
    with torch.enable_grad():
        weights = queries.new_zeros(index.shape, requires_grad=True)
        (products,) = torch.autograd.grad(_added(rows, index, weights), weights, queries)
    return products


class _Every(Function):
    """The table becomes the result: own columns, padded with -1, are masked in place, without a wait for the device."""

    @staticmethod
    def forward(
        ctx: Any, queries: Tensor, rows: Tensor, table: Tensor, own: Tensor | None, index: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        ctx.mark_dirty(table)
        ctx.save_for_backward(rows, index)
        chosen = None if index is None else table.gather(1, index)
        if own is not None:
            # Padding repeats another own column, or without one column 0, which stays.
            last = own.amax(dim=1, keepdim=True)
            places = own.where(own >= 0, last).clamp(min=0)
            table.scatter_(1, places, table.gather(1, places).masked_fill(last >= 0, -math.inf))
        return table, chosen

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, chosen_gradient: Tensor | None) -> tuple[Tensor | None, ...]:
        rows, index = ctx.saved_tensors
        # The gradient of every bound is 0 in masked columns.
        gradient = gradient if index is None else gradient.scatter_add(1, index, chosen_gradient)
        return gradient @ rows, None, None, None, None
