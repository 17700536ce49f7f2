"""Negatives by rank: uniform, ball and ring are columns of the scores, picked for each query.

Columns are ranked by score, highest first. The query's own column has no rank and is never a negative. With m other
columns, a set keeps the ranks from floor(inner * m) up to, not including, floor(outer * m). Ranks are exact.

`self_index` holds the columns of each query's own image; annulus.negatives.own says in which forms. Where a query
may have one, m is one less than the columns for all queries, so that their sets are equally large and a GPU need not be
asked which queries have how many. Own columns rank last, and a set that reaches them leaves them out.

A score of -inf ranks last, equal scores in any order. NaN, which has no rank, is refused. Bounds pass it on.

`k` negatives are drawn with replacement, each column of the set being as likely as any other; "all" is the whole set.

`generator` is on the scores' device. Its state goes on with every draw and is in no module: a loop that resumes keeps
`generator.get_state()` in its checkpoint, and gives it back by `set_state`.
"""

from numbers import Integral
from typing import Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.checks import in_own_loop, require, require_range
from annulus.errors import InputError
from annulus.negatives.draws import Random, check_generator, fractions, integers
from annulus.negatives.own import SelfIndex, own_columns
from annulus.negatives.ranked import select
from annulus.negatives.ranks import rank_limits
from annulus.negatives.selection import Selection

COUNTED = 4  # with fewer columns for each negative, counting on from the first one is faster than searching for each
SEARCHED = 16  # with fewer members for each negative, listing those that are kept is faster

Count = int | Literal["all"]


def uniform(scores: Float[Tensor, "b n"], self_index: SelfIndex, k: Count, generator: Random) -> Selection:
    """Negatives from all other columns.

    Raises:
        InputError: when there is no other column, or an argument has not its type or shape.

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
        InputError: when the ball holds no column, or an argument has not its type or shape.

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

    In the paper's percentiles, outer is 1 - w_l/100 and inner is 1 - w_u/100. Keep `generator.get_state()` with a
    loop's checkpoint: no module saves it.

    Source: Wu et al. 2020, arXiv:2010.02037, Section 4.

    Raises:
        InputError: when the ring holds no column, or an argument has not its type or shape.

    >>> random = torch.Generator().manual_seed(0)
    >>> scores = torch.tensor([[9.0, 3.0, 2.0, 1.0]])  # column 0 is the query's own, ranks are those of the others
    >>> drawn = annulus.negatives.ring(scores, torch.tensor([0]), inner=1 / 3, outer=2 / 3, k=2, generator=random)
    >>> drawn.gather(scores)
    tensor([[2., 2.]])
    """
    check_arguments(scores, self_index, k, generator)
    others = scores.shape[1] - (self_index is not None)
    first, last = rank_limits(inner, outer, others)
    if (first, last) == (0, others):
        return _of_all(scores, self_index, k, generator)
    if k == "all" or _reaches_own(self_index, last, scores.shape[1]):
        members = closest(scores, self_index, first, last)
        return members if k == "all" else draw_kept(members.index, members.mask, fractions(len(scores), k, generator))
    return Selection(select(scores, self_index, first, last, integers(last - first, len(scores), k, generator)))


def closest(scores: Float[Tensor, "b n"], self_index: SelfIndex, first: int, last: int) -> Selection:
    """All other columns of ranks [first, last).

    Raises:
        InputError: when the query's own columns may fill these ranks.
    """
    columns = scores.shape[1]
    index = select(scores, self_index, first, last)
    if not _reaches_own(self_index, last, columns):
        return Selection(index)
    if first >= columns - self_index.shape[1]:
        raise InputError(
            f"negatives of ranks {first} to {last - 1} of {columns} columns may all be of the query's own image, of "
            f"which {self_index.shape[1]} columns may be; widen the sampler or take a larger memory"
        )
    return Selection(index, ~own_columns(scores, self_index).gather(1, index))


def draw_kept(index: Int[Tensor, "b m"], kept: Bool[Tensor, "b m"], drawn: Float[Tensor, "b k"]) -> Selection:
    """The kept columns of each query, which has at least one, that numbers in [0, 1) pick."""
    # A query that keeps none, which a GPU refuses later, draws any column.
    upto, width = kept.cumsum(dim=1, dtype=torch.int32), index.shape[1]
    places = (drawn * upto[:, -1:]).int()
    if width >= SEARCHED * drawn.shape[1]:
        return Selection(index.gather(1, torch.searchsorted(upto, places, right=True).clamp(max=width - 1)))
    # The kept columns one after the other, and behind them, where no draw reaches, the others.
    listed = index.new_zeros(len(index), width + 1).scatter_(1, (upto - 1).where(kept, width).long(), index)
    return Selection(listed.gather(1, places.long()))


def check_count(k: Count) -> None:
    """Refuse what is no number of negatives.

    Raises:
        InputError: unless it is 1 or more, or all.
    """
    if k != "all" and not (isinstance(k, Integral) and k > 0):
        raise InputError(f"{k!r} negatives: give a whole number, 1 or more, or 'all'")


def check_arguments(scores: Tensor, self_index: Tensor | None, k: Count, generator: Random) -> None:
    """Types, shapes and devices; own columns too, for which no GPU is waited for."""
    check_count(k)
    for name, given in (("scores", scores), ("self_index", self_index)):
        if not isinstance(given, Tensor) and not (given is None and name == "self_index"):
            raise InputError(f"{name} is a {type(given).__name__}; give a tensor")
    if scores.ndim != 2 or not scores.is_floating_point() or scores.numel() == 0:
        raise InputError(
            f"scores of shape {tuple(scores.shape)} and {scores.dtype}: give floating-point numbers, a row per query "
            "and a column per row of the memory"
        )
    check_generator(generator, scores.device)
    if any(scores.stride()):  # else zeros without memory, which stand for scores that are not read
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
            lambda: _once(self_index.sort(dim=1).values),
            self_index.device,
            lambda: "self_index holds a column of a query twice",
            "give each of its own columns once, and pad with -1",
        )


def check_numbers(scores: Float[Tensor, "b n"]) -> None:
    """Refuse NaN, which has no rank; not within this library's own loop, which checks its losses.

    Raises:
        InputError: with the number of queries that have a NaN.
    """
    if not in_own_loop():
        require(
            lambda: ~scores.detach().amax().isnan(),  # of any NaN the largest is NaN
            scores.device,
            lambda: f"scores hold NaN for {int(scores.isnan().any(dim=1).sum())} of {len(scores)} queries",
            "NaN has no rank: look for a loss that was not finite, a division by 0, or a learning rate too high",
        )


def _reaches_own(self_index: SelfIndex, last: int, columns: int) -> bool:
    """True where ranks before `last` may hold a column of the query's own image, of which there may be several."""
    return self_index is not None and self_index.ndim == 2 and last > columns - self_index.shape[1]


def _once(rising: Int[Tensor, "b w"]) -> Bool[Tensor, ""]:
    """True where no query has a column twice; -1 is none."""
    return ((rising[:, 1:] > rising[:, :-1]) | (rising[:, 1:] < 0)).all()


def _of_all(scores: Float[Tensor, "b n"], self_index: SelfIndex, k: Count, generator: Random) -> Selection:
    """Negatives from all other columns, which need no ranks."""
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
        lambda: f"all {columns} columns are of a query's own image, so that none is left to draw",
        "take a larger memory",
    )
    return Selection(_others(self_index, columns, (fractions(queries, k, generator) * others).long()))


def _others(own: Int[Tensor, "b w"], columns: int, places: Int[Tensor, "b k"]) -> Int[Tensor, "b k"]:
    """The columns at these places among all but the query's own, of which -1 is none."""
    own = own.where(own >= 0, columns).sort(dim=1).values
    # Before the own column at place j there are own - j others: each own column that a place reaches moves it by one.
    before = (own - torch.arange(own.shape[1], device=own.device)).where(own < columns, columns)
    if columns >= COUNTED * places.shape[1]:
        return places + torch.searchsorted(before, places, right=True)
    marks = torch.zeros(len(own), columns + 1, dtype=torch.int32, device=own.device)
    marks.scatter_add_(1, before, torch.ones_like(before, dtype=torch.int32))
    return places + marks.cumsum(dim=1, dtype=torch.int32).gather(1, places)
