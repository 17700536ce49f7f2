"""Which columns of the scores are negatives of each query: uniform, ball, ring, cave.

Columns are ranked by score, highest first. The query's own column has no rank and is never a negative. With m other
columns, a set keeps the ranks from floor(inner * m) up to, not including, floor(outer * m). Ranks are exact.

`self_index` holds each query's own column, -1 where the query has none; None: no query has one. In a bank every query
has one, in a queue only a query of whose image an older key is there, and among the other views of a batch none has.
Where a query may have one, m is one less than the columns for all queries, so that their sets are equally large and a
GPU need not be asked which queries have one.

`k` negatives are drawn with replacement, each column of the set being as likely as any other; "all" is the whole set.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.errors import InputError
from annulus.negatives.clusters import Clustering, Clusters
from annulus.negatives.ranked import select
from annulus.negatives.selection import Selection
from annulus.ranks import kept_shares, rank_limits

CAVE_QUERIES = 128  # at a time: early in annealing, the members of all would take the scores' memory many times

SelfIndex = Int[Tensor, "b"] | None
Count = int | Literal["all"]


def uniform(scores: Float[Tensor, "b n"], self_index: SelfIndex, k: Count, generator: torch.Generator) -> Selection:
    """Negatives from all other columns.

    Raises:
        InputError: when there is no other column.
    """
    return ring(scores, self_index, 0.0, 1.0, k, generator)


def ball(
    scores: Float[Tensor, "b n"], self_index: SelfIndex, outer: float, k: Count, generator: torch.Generator
) -> Selection:
    """Negatives from the closest share of the other columns, of ranks [0, outer).

    Source: Wu et al. 2020, arXiv:2005.13149, section 4.2 (BALL).

    Raises:
        InputError: when the ball holds no column.
    """
    return ring(scores, self_index, 0.0, outer, k, generator)


def ring(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    inner: float,
    outer: float,
    k: Count,
    generator: torch.Generator,
) -> Selection:
    """Negatives of ranks [inner, outer), as shares of the other columns, closest first.

    In the paper's percentiles, outer is 1 - w_l/100 and inner is 1 - w_u/100.

    Source: Wu et al. 2020, arXiv:2010.02037, section 4.

    Raises:
        InputError: when the ring holds no column.
    """
    others = scores.shape[1] - (self_index is not None)
    first, last = rank_limits(inner, outer, others)
    whole = (first, last) == (0, others)
    if k == "all":
        if not whole:
            return Selection(select(scores, self_index, first, last))
        if self_index is None:
            return Selection(None)
        mask = torch.ones_like(scores, dtype=torch.bool)
        return Selection(None, mask.scatter_(1, self_index.clamp_min(0)[:, None], (self_index < 0)[:, None]))
    picked = torch.randint(last - first, (len(scores), k), generator=generator, device=scores.device)
    if not whole:
        return Selection(select(scores, self_index, first, last, picked))
    if self_index is not None:  # no ranks needed: step over the own column, or where there is none over the last
        picked = picked + (picked >= self_index.where(self_index >= 0, others)[:, None])
    return Selection(picked)


def cave(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    outer: float,
    clusters: Clusters,
    k: Count,
    generator: torch.Generator,
    keep: Literal["outside", "inside"] = "outside",
) -> Selection:
    """Negatives from the ball without the query's own cluster, united over the clusterings; inside: with only that.

    Source: Wu et al. 2020, arXiv:2005.13149, section 4.3 (outside); arXiv:2010.02037, appendix F (IRCave, inside).

    Raises:
        InputError: when a query's set is empty.
    """
    first, last = rank_limits(0.0, outer, scores.shape[1] - (self_index is not None))
    parts = []
    for start in range(0, len(scores), CAVE_QUERIES):
        some = slice(start, start + CAVE_QUERIES)
        members = select(scores[some], None if self_index is None else self_index[some], first, last)
        parts.append(_of_members(members, clusters.of(some), k, generator, keep))
    index = torch.cat([part.index for part in parts])
    return Selection(index, torch.cat([part.mask for part in parts]) if k == "all" else None)


def _of_members(
    members: Int[Tensor, "b m"],
    clusters: Clusters,
    k: Count,
    generator: torch.Generator,
    keep: Literal["outside", "inside"],
) -> Selection:
    inside = clusters.shared(members)
    kept = inside if keep == "inside" else ~inside
    counts = kept.sum(dim=1)
    if (counts == 0).any():
        where, change = ("in", "") if keep == "outside" else ("outside", "decrease ")
        raise InputError(
            f"sampler cave: {int((counts == 0).sum())} queries have no candidate negatives (all of their "
            f"{members.shape[1]} nearest rows are {where} the query's own cluster). Increase samplers.cave.outer or "
            f"{change}samplers.cave.clusters."
        )
    if k == "all":
        return Selection(members, kept)
    # The kept members of all queries in one list; each query draws from its own stretch of it.
    listed = members[kept]
    starts = counts.cumsum(0) - counts
    random = torch.rand(len(members), k, generator=generator, device=members.device, dtype=torch.float64)
    return Selection(listed[starts[:, None] + (random * counts[:, None]).long()])


@runtime_checkable
class Sampler(Protocol):
    """Settings of a sampler. `shares`: its (inner, outer) borders; `clustering`: how clusters are made, if needed."""

    clustering: Clustering | None

    @property
    def shares(self) -> tuple[float, float]: ...

    def draw(
        self,
        scores: Float[Tensor, "b n"],
        self_index: SelfIndex,
        k: Count,
        generator: torch.Generator,
        progress: float = 1.0,
        clusters: Clusters | None = None,
    ) -> Selection:
        """Negatives; `progress` in [0, 1] anneals from all other columns to the sampler's own set.

        Raises:
            InputError: when a set is empty.
        """


@dataclass(frozen=True)
class Ring:
    """`ring` with these borders; inner 0 is the ball, inner 0 with outer 1 is uniform."""

    inner: float
    outer: float
    clustering: ClassVar[None] = None

    @property
    def shares(self) -> tuple[float, float]:
        return self.inner, self.outer

    def draw(
        self,
        scores: Float[Tensor, "b n"],
        self_index: SelfIndex,
        k: Count,
        generator: torch.Generator,
        progress: float = 1.0,
        clusters: Clusters | None = None,
    ) -> Selection:
        return ring(scores, self_index, *kept_shares(self.shares, progress), k, generator)


@dataclass(frozen=True)
class Cave:
    """`cave` with these settings; the clusters count in full as soon as annealing has begun."""

    outer: float
    keep: Literal["outside", "inside"]
    clustering: Clustering

    @property
    def shares(self) -> tuple[float, float]:
        return 0.0, self.outer

    def draw(
        self,
        scores: Float[Tensor, "b n"],
        self_index: SelfIndex,
        k: Count,
        generator: torch.Generator,
        progress: float = 1.0,
        clusters: Clusters | None = None,
    ) -> Selection:
        if progress == 0:
            return uniform(scores, self_index, k, generator)
        _, outer = kept_shares(self.shares, progress)
        return cave(scores, self_index, outer, clusters, k, generator, self.keep)
