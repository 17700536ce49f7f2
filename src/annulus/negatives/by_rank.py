"""Negatives by rank: uniform, ball and ring select columns of the scores for each query.

Columns are ranked by score, highest first. The query's own column has no rank and is never a negative. With m other
columns, a set holds the ranks from floor(inner * m) up to, not including, floor(outer * m). Ranks are exact.

`self_index` holds the columns of each query's own image, in one of the forms of annulus.negatives.own. If a query may
have one, m is one less than the number of columns for all queries. So their sets have equal sizes, and the host does
not wait for a GPU to count own columns. Own columns rank last, and a set that reaches them omits them.

A score of -inf ranks last; equal scores rank in any order. NaN has no rank and raises InputError here, while bounds
return NaN.

`k` negatives are drawn with replacement, uniformly from the set; "all" is the whole set.

`generator` is on the scores' device. Each draw advances its state, which no module stores: a loop that resumes saves
`generator.get_state()` in its checkpoint, and restores it by `set_state`.
"""

from numbers import Integral
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.checks import in_own_loop, require, require_range
from annulus.errors import InputError
from annulus.negatives.own import SelfIndex, own_columns
from annulus.negatives.random_numbers import Random, check_generator, fractions, integers
from annulus.negatives.ranked import select
from annulus.negatives.ranks import rank_limits
from annulus.negatives.selection import Selection

COUNTED = 4  # columns for each negative: with fewer, a running count is faster than a search for each negative
SEARCHED = 16  # members for each negative: with fewer, a list of the masked members is faster than a search

Count = int | Literal["all"]


def uniform(scores: Float[Tensor, "b n"], self_index: SelfIndex, k: Count, generator: Random) -> Selection:
    """Negatives from all other columns.

    Raises:
        InputError: if there is no other column, or an argument has a wrong type or shape.

    >>> random = torch.Generator().manual_seed(0)
    >>> scores = torch.tensor([[9.0, 3.0, 2.0, 1.0]])
    >>> annulus.negatives.uniform(scores, torch.tensor([0]), k="all", generator=random).gather(scores)
    tensor([[-inf, 3., 2., 1.]])
    """
    return ring(scores, self_index, 0.0, 1.0, k, generator)


def ball(scores: Float[Tensor, "b n"], self_index: SelfIndex, outer: float, k: Count, generator: Random) -> Selection:
    """Negatives from the closest share of the other columns, of ranks [0, outer).

    Source: Wu et al. 2020, arXiv:2005.13149, Section 4.2 (BALL).

    Raises:
        InputError: if the ball holds no column, or an argument has a wrong type or shape.

    >>> random = torch.Generator().manual_seed(0)
    >>> scores = torch.tensor([[9.0, 3.0, 2.0, 1.0]])
    >>> annulus.negatives.ball(scores, torch.tensor([0]), outer=1 / 3, k=4, generator=random).gather(scores)
    tensor([[3., 3., 3., 3.]])
    """
    return ring(scores, self_index, 0.0, outer, k, generator)


def ring(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    inner: float,
    outer: float,
    k: Count,
    generator: Random,
) -> Selection:
    """Negatives of ranks [inner, outer), as shares of the other columns, closest first.

    In the paper's percentiles, outer is 1 - w_l/100 and inner is 1 - w_u/100. A loop's checkpoint needs
    `generator.get_state()`, which no module saves.

    Source: Wu et al. 2020, arXiv:2010.02037, Section 4.

    Raises:
        InputError: if the ring holds no column, or an argument has a wrong type or shape.

    >>> random = torch.Generator().manual_seed(0)
    >>> scores = torch.tensor([[9.0, 3.0, 2.0, 1.0]])  # column 0 is the query's own; the others have ranks
    >>> drawn = annulus.negatives.ring(scores, torch.tensor([0]), inner=1 / 3, outer=2 / 3, k=2, generator=random)
    >>> drawn.gather(scores)
    tensor([[2., 2.]])
    """
    check_arguments(scores, self_index, k, generator)
    others = scores.shape[1] - (self_index is not None)
    first, last = rank_limits(inner, outer, others)
    if (first, last) == (0, others):
        return _from_all_columns(scores, self_index, k, generator)
    if k == "all" or _reaches_own(self_index, last, scores.shape[1]):
        members = closest(scores, self_index, first, last)
        return members if k == "all" else draw_masked(members.index, members.mask, fractions(len(scores), k, generator))
    return Selection(select(scores, self_index, first, last, integers(last - first, len(scores), k, generator)))


def closest(scores: Float[Tensor, "b n"], self_index: SelfIndex, first: int, last: int) -> Selection:
    """All other columns of ranks [first, last).

    Raises:
        InputError: if the query's own columns may fill these ranks.
    """
    columns = scores.shape[1]
    index = select(scores, self_index, first, last)
    if not _reaches_own(self_index, last, columns):
        return Selection(index)
    if first >= columns - self_index.shape[1]:
        raise InputError(
            f"negatives of ranks {first} to {last - 1} of {columns} columns may all be of the query's own image, which "
            f"may have {self_index.shape[1]} columns; widen the sampler or take a larger memory"
        )
    return Selection(index, ~own_columns(scores, self_index).gather(1, index))


def draw_masked(index: Int[Tensor, "b m"], mask: Bool[Tensor, "b m"], drawn: Float[Tensor, "b k"]) -> Selection:
    """Selects masked columns of each query by numbers in [0, 1); each query has at least one masked column."""
    # A query without one draws any column, and a GPU's check raises later.
    upto, width = mask.cumsum(dim=1, dtype=torch.int32), index.shape[1]
    places = (drawn * upto[:, -1:]).int()
    if width >= SEARCHED * drawn.shape[1]:
        return Selection(index.gather(1, torch.searchsorted(upto, places, right=True).clamp(max=width - 1)))
    # The masked columns first; the others behind them, beyond every draw.
    listed = index.new_zeros(len(index), width + 1).scatter_(1, (upto - 1).where(mask, width).long(), index)
    return Selection(listed.gather(1, places.long()))


def check_count(k: Count) -> None:
    """Raises InputError unless k is a number of negatives, 1 or more, or "all".

    Raises:
        InputError: with k.
    """
    if k != "all" and not (isinstance(k, Integral) and k > 0):
        raise InputError(f"{k!r} negatives: give a whole number, 1 or more, or 'all'")


def check_arguments(scores: Tensor, self_index: Tensor | None, k: Count, generator: Random) -> None:
    """Checks types, shapes, devices and own columns, without a wait for a GPU."""
    check_count(k)
    for name, value in (("scores", scores), ("self_index", self_index)):
        if not isinstance(value, Tensor) and not (value is None and name == "self_index"):
            raise InputError(f"{name} is a {type(value).__name__}; give a tensor")
    if scores.ndim != 2 or not scores.is_floating_point() or scores.numel() == 0:
        raise InputError(
            f"scores of shape {tuple(scores.shape)} and {scores.dtype}: give floating-point numbers, a row per query "
            "and a column per row of the memory"
        )
    check_generator(generator, scores.device)
    if any(scores.stride()):  # strides of 0: `Scores.unread`
        check_numbers(scores)
    if self_index is None:
        return
    whole = self_index.dtype in (torch.int32, torch.int64)
    if not whole or self_index.ndim not in (1, 2) or len(self_index) != len(scores):
        raise InputError(
            f"self_index of shape {tuple(self_index.shape)} and {self_index.dtype}: give each of {len(scores)} queries "
            "the number of its own column, or several padded with -1"
        )
    if self_index.device != scores.device:
        raise InputError(f"self_index on {self_index.device}, but scores on {scores.device}: move one by .to(device)")
    first, padding = (0, " (a query without one: self_index[:, None])") if self_index.ndim == 1 else (-1, ", or -1")
    columns = scores.shape[1]
    require_range("self_index", self_index, first, columns, f"give own columns from 0 to {columns - 1}{padding}")
    if self_index.ndim == 2:
        require(
            lambda: _without_repeats(self_index.sort(dim=1).values),
            self_index.device,
            lambda: "self_index holds a column of a query twice",
            "give each of its own columns once, and pad with -1",
        )


def check_numbers(scores: Float[Tensor, "b n"]) -> None:
    """Raises InputError for NaN, except in this library's own loop, which checks its losses.

    Raises:
        InputError: with the number of queries that have a NaN.
    """
    if not in_own_loop():
        require(
            lambda: ~scores.detach().amax().isnan(),  # with a NaN the maximum is NaN
            scores.device,
            lambda: f"scores hold NaN for {int(scores.isnan().any(dim=1).sum())} of {len(scores)} queries",
            "NaN has no rank: look for a loss that was not finite, a division by 0, or a learning rate too high",
        )


def _reaches_own(self_index: SelfIndex, last: int, columns: int) -> bool:
    """Returns True if ranks before `last` may hold one of several columns of the query's own image."""
    return self_index is not None and self_index.ndim == 2 and last > columns - self_index.shape[1]


def _without_repeats(rising: Int[Tensor, "b w"]) -> Bool[Tensor, ""]:
    """True if no row of ascending columns holds a column twice; -1 is padding."""
    return ((rising[:, 1:] > rising[:, :-1]) | (rising[:, 1:] < 0)).all()


def _from_all_columns(scores: Float[Tensor, "b n"], self_index: SelfIndex, k: Count, generator: Random) -> Selection:
    """Negatives from all other columns, without ranks."""
    columns, queries = scores.shape[1], len(scores)
    if k == "all":
        return Selection(None, own=self_index)
    if self_index is None:
        return Selection(integers(columns, queries, k, generator))
    if self_index.ndim == 1:
        picked = integers(columns - 1, queries, k, generator)
        return Selection(picked + (picked >= self_index[:, None]))
    others = columns - (self_index >= 0).sum(dim=1, keepdim=True)
    require(
        lambda: (others > 0).all(),
        scores.device,
        lambda: f"all {columns} columns are of a query's own image, so there is no column to draw",
        "take a larger memory",
    )
    return Selection(_others(self_index, columns, (fractions(queries, k, generator) * others).long()))


def _others(own: Int[Tensor, "b w"], columns: int, places: Int[Tensor, "b k"]) -> Int[Tensor, "b k"]:
    """The columns at these places among all columns except the query's own; -1 is padding."""
    own = own.where(own >= 0, columns).sort(dim=1).values
    # own - j other columns precede the own column at place j: each own column that a place reaches shifts it by one.
    before = (own - torch.arange(own.shape[1], device=own.device)).where(own < columns, columns)
    if columns >= COUNTED * places.shape[1]:
        return places + torch.searchsorted(before, places, right=True)
    marks = torch.zeros(len(own), columns + 1, dtype=torch.int32, device=own.device)
    marks.scatter_add_(1, before, torch.ones_like(before, dtype=torch.int32))
    return places + marks.cumsum(dim=1, dtype=torch.int32).gather(1, places)
