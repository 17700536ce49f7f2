"""Neighbours: columns of the scores that are further positives, the closest (s) or those of the clusters (k).

The query's own column, where it has one, is a positive already and is never returned.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Protocol, runtime_checkable

import torch
from annotated_types import Gt, Lt
from jaxtyping import Float, Int
from torch import Tensor

from annulus.errors import InputError
from annulus.negatives import by_rank
from annulus.negatives.clusters import Clustering, Clusters
from annulus.negatives.own import SelfIndex, own_columns
from annulus.negatives.selection import Selection
from annulus.settings import ClusterCount, Fraction, Repeats, Section, Steps


def share_at(share: float, start: float, until: float, training: float) -> float:
    """The share of the other columns that are neighbours when `training` (a share, as start and until) is done.

    0 up to `start`, then in a straight line to `share` at `until`, and constant from there on.
    Source: Wu et al. 2020, arXiv:2005.13149, Appendix C.2 (from 0 to 1 % between epochs 10 and 100 of 200).
    """
    if training >= until:
        return share
    if training <= start:
        return 0.0
    return share * (training - start) / (until - start)


def closest(scores: Float[Tensor, "b n"], self_index: SelfIndex, share: float) -> Selection:
    """s-neighbours: the floor(share * others) other columns that score highest; none where that is 0.

    `self_index` and the number of others are those of `annulus.negatives.by_rank`, so that neighbours of a share end
    where a ring of that inner border begins. Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3.
    """
    # As ranks.rank_limits rounds, but for the empty set, which is no mistake here.
    count = math.floor(round(share * (scores.shape[1] - (self_index is not None)), 6))
    if count == 0:
        return Selection(torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device))
    return by_rank.closest(scores, self_index, 0, count)


def clustered(clusters: Clusters, self_index: SelfIndex) -> Selection:
    """k-neighbours: the other columns in the query's cluster, united over the clusterings.

    Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3 and Appendix C.2 (10 clusterings). The paper leaves open how
    the clusterings combine; here they are united.
    """
    if clusters.columns.is_cuda:
        return among_all(clusters, self_index)
    queries = clusters.queries.shape[1]
    if clusters.columns.ndim == 3:
        every = torch.arange(clusters.columns.shape[2], device=clusters.columns.device).expand(queries, -1)
        query, column = clusters.shared(every).nonzero(as_tuple=True)
    else:
        query, column = _members(clusters.columns, clusters.queries)
    if self_index is not None:
        others = (column[:, None] != self_index.view(queries, -1)[query]).all(dim=1)
        query, column = query[others], column[others]
    counts = query.bincount(minlength=queries)
    mask = torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
    index = torch.zeros_like(mask, dtype=torch.int64)
    index[mask] = column  # by query, as the places are
    return Selection(index, mask)


def among_all(clusters: Clusters, self_index: SelfIndex) -> Selection:
    """The same neighbours as a mask over all columns: how many a query has, a GPU would have to be asked."""
    marked = clusters.marked()
    return Selection(None, marked & ~own_columns(marked, self_index))


def _members(
    clusters: Int[Tensor, "runs n"], query_clusters: Int[Tensor, "runs b"]
) -> tuple[Int[Tensor, "pairs"], Int[Tensor, "pairs"]]:
    """Each (query, column) once that shares a cluster in some run, by query and column.

    The columns are sorted by cluster in each run, and a cluster's members are a stretch of that list: the work grows
    with the number of pairs, not with queries times columns.
    """
    (runs, columns), queries = clusters.shape, query_clusters.shape[1]
    # Run by run: a single row sorts ten times as fast as in a table (radix sort).
    ordered, order = (torch.stack(parts) for parts in zip(*(run.sort() for run in clusters), strict=True))
    wanted = query_clusters.to(ordered.dtype).contiguous()
    starts = torch.searchsorted(ordered, wanted)
    counts = (torch.searchsorted(ordered, wanted, right=True) - starts).masked_fill(wanted < 0, 0).flatten()
    starts = (starts + columns * torch.arange(runs, device=starts.device)[:, None]).flatten()  # in all runs' lists
    # The stretches one after the other: places in the lists, which rise by one within a stretch.
    places = torch.arange(int(counts.sum()), device=counts.device)
    places += (starts - (counts.cumsum(0) - counts)).repeat_interleave(counts)
    query = torch.arange(queries, device=counts.device).repeat(runs).repeat_interleave(counts)
    pairs = (query * columns + order.flatten()[places]).unique()
    return pairs // columns, pairs % columns


@runtime_checkable
class Neighbours(Protocol):
    """Settings of neighbours. `clustering`: how clusters are made, if needed.

    `in_denominator`: whether neighbours are candidates too, beside the query's own positive and the negatives; where
    they are not, the loss is the papers' and no bound.
    """

    @property
    def clustering(self) -> Clustering | None: ...

    @property
    def in_denominator(self) -> bool: ...

    def find(
        self, scores: Float[Tensor, "b n"], self_index: SelfIndex, training: float, clusters: Clusters | None
    ) -> Selection | None:
        """The further positives when this share of training is done; None: there are none yet."""

    @property
    def warning(self) -> str | None:
        """Warning for these settings, one sentence."""


BY_CHANCE = (
    "neighbours from the first step on are neighbours by chance, and the paper's runs got worse by them "
    "(Wu et al. 2020, arXiv:2005.13149, table 1, s-neigh without anneal); "
)


@dataclass(frozen=True)
class NoNeighbours(Section):
    """Only the query's own positive."""


@dataclass(frozen=True, kw_only=True)
class CloseNeighbours(Section):
    """`closest`, growing from none at `start` to `share` at `until` (shares of training), as `share_at` says.

    in_denominator: whether neighbours are candidates too, which keeps the ceiling; without is the papers' formula.

    >>> neighbours = annulus.negatives.CloseNeighbours(share=0.01, start=0.05, until=0.5, in_denominator=True)
    >>> config = annulus.ContrastConfig(annulus.negatives.Ring(inner=0.01, outer=0.1), neighbours, negatives=64)
    """

    share: Annotated[float, Gt(0), Lt(1)]
    start: Fraction
    until: Fraction
    in_denominator: bool
    clustering: ClassVar[None] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.start > self.until:
            raise InputError(f"needs start <= until, got start={self.start}, until={self.until}")

    def find(
        self, scores: Float[Tensor, "b n"], self_index: SelfIndex, training: float, clusters: Clusters | None
    ) -> Selection | None:
        """The closest columns when this share of training is done; None up to `start`."""
        found = closest(scores, self_index, share_at(self.share, self.start, self.until, training))
        return found if found.index.shape[1] else None

    @property
    def warning(self) -> str | None:
        return BY_CHANCE + "let the neighbours' start be 0.05, say, and until 0.5" if self.until == 0 else None


@dataclass(frozen=True, kw_only=True)
class ClusterNeighbours(Section):
    """`clustered`, united over `runs` clusterings, from `start` on (a share of training).

    in_denominator: as for the closest ones.

    >>> neighbours = annulus.negatives.ClusterNeighbours(
    ...     clusters=100, runs=3, iterations=10, start=0.05, in_denominator=True
    ... )
    >>> neighbours.clustering
    Clustering(clusters=100, iterations=10, runs=3)
    """

    clusters: ClusterCount
    runs: Repeats
    iterations: Steps
    start: Fraction
    in_denominator: bool

    @property
    def clustering(self) -> Clustering:
        return Clustering(self.clusters, self.iterations, self.runs)

    def find(
        self, scores: Float[Tensor, "b n"], self_index: SelfIndex, training: float, clusters: Clusters | None
    ) -> Selection | None:
        """The columns in the query's clusters; None before `start`."""
        return clustered(clusters, self_index) if training >= self.start else None

    @property
    def warning(self) -> str | None:
        return BY_CHANCE + "let the neighbours' start be 0.05, say" if self.start == 0 else None


NEIGHBOURS = {"none": NoNeighbours, "s": CloseNeighbours, "k": ClusterNeighbours}  # by their keys in params.yaml
