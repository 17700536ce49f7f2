"""Neighbours: further positives among the columns: the closest (s), the query's cluster (k) or its class (class).

The query's own column is a positive already and is never returned.
"""

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, Protocol, runtime_checkable

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
    """Share of the other columns that are neighbours at the share `training` of training.

    It is 0 up to `start`, rises linearly to `share` at `until`, and stays.
    Source: Wu et al. 2020, arXiv:2005.13149, Appendix C.2 (from 0 to 1 % between epochs 10 and 100 of 200).
    """
    if training >= until:
        return share
    if training <= start:
        return 0.0
    return share * (training - start) / (until - start)


def closest(scores: Float[Tensor, "b n"], self_index: SelfIndex, share: float) -> Selection:
    """s-neighbours: the floor(share * others) other columns with the highest scores; possibly none.

    `self_index` and the number of others are as in `annulus.negatives.by_rank`, so a ring with inner border `share`
    begins where these neighbours end. Source: Wu et al. 2020, arXiv:2005.13149, Section 4.3.
    """
    # Rounded as in ranks.rank_limits; here the empty set is valid.
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
    index[mask] = column  # both are in the order of queries
    return Selection(index, mask)


def among_all(clusters: Clusters, self_index: SelfIndex) -> Selection:
    """`clustered` neighbours as a mask over all columns, without a wait for a GPU to count them."""
    marked = clusters.marked()
    return Selection(None, marked & ~own_columns(marked, self_index))


def _members(
    clusters: Int[Tensor, "runs n"], query_clusters: Int[Tensor, "runs b"]
) -> tuple[Int[Tensor, "pairs"], Int[Tensor, "pairs"]]:
    """The pairs (query, column) that share a cluster in some run, each once, by query and column.

    The columns are sorted by cluster in each run, and a cluster's members are a stretch of that list. So the work grows
    with the number of pairs, not with queries times columns.
    """
    (runs, columns), queries = clusters.shape, query_clusters.shape[1]
    # Run by run: a single row sorts ten times faster than a row of a table (radix sort).
    ordered, order = (torch.stack(parts) for parts in zip(*(run.sort() for run in clusters), strict=True))
    query_clusters = query_clusters.to(ordered.dtype).contiguous()
    starts, ends = (torch.searchsorted(ordered, query_clusters, right=right) for right in (False, True))
    counts = (ends - starts).masked_fill(query_clusters < 0, 0).flatten()
    starts = (starts + columns * torch.arange(runs, device=starts.device)[:, None]).flatten()  # in all runs' lists
    # Places in the lists, stretch after stretch; within a stretch they rise by one.
    places = torch.arange(int(counts.sum()), device=counts.device)
    places += (starts - (counts.cumsum(0) - counts)).repeat_interleave(counts)
    query = torch.arange(queries, device=counts.device).repeat(runs).repeat_interleave(counts)
    pairs = (query * columns + order.flatten()[places]).unique()
    return pairs // columns, pairs % columns


@runtime_checkable
class Neighbours(Protocol):
    """Settings of neighbours. `clustering` has the settings of k-means, "classes", or None if no clusters are needed.

    With `in_denominator`, neighbours are candidates beside the query's own positive and the negatives. Without it, the
    loss is the papers' formula and not a bound.
    """

    @property
    def clustering(self) -> Clustering | Literal["classes"] | None: ...

    @property
    def in_denominator(self) -> bool: ...

    def find(
        self, scores: Float[Tensor, "b n"], self_index: SelfIndex, training: float, clusters: Clusters | None
    ) -> Selection | None:
        """The further positives at this share of training; None before the first ones."""

    @property
    def warning(self) -> str | None:
        """Warning for these settings, one sentence."""


BY_CHANCE = (
    "neighbours from the first step on are neighbours by chance, and made the paper's runs worse "
    "(Wu et al. 2020, arXiv:2005.13149, table 1, s-neigh without anneal); "
)


@dataclass(frozen=True)
class NoNeighbours(Section):
    """No neighbours: the query's own column is the only positive."""


@dataclass(frozen=True, kw_only=True)
class CloseNeighbours(Section):
    """`closest` neighbours; their share grows by `share_at` from 0 at `start` to `share` at `until` (of training).

    in_denominator: True makes neighbours candidates too, which keeps the ceiling; False is the papers' formula.

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
        """The closest columns at this share of training; None up to `start`."""
        neighbours = closest(scores, self_index, share_at(self.share, self.start, self.until, training))
        return neighbours if neighbours.index.shape[1] else None

    @property
    def warning(self) -> str | None:
        return BY_CHANCE + "let the neighbours' start be 0.05, say, and until 0.5" if self.until == 0 else None


@dataclass(frozen=True, kw_only=True)
class ClusterNeighbours(Section):
    """`clustered` neighbours, united over `runs` clusterings, from the share `start` of training on.

    in_denominator: as in `CloseNeighbours`.

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


@dataclass(frozen=True, kw_only=True)
class ClassNeighbours(Section):
    """The columns of the query's class, by the labels, from the share `start` of training on.

    in_denominator: as in `CloseNeighbours`.

    >>> neighbours = annulus.negatives.ClassNeighbours(start=0.0, in_denominator=True)
    >>> config = annulus.ContrastConfig(annulus.negatives.OtherClass(outer=1.0), neighbours)
    """

    start: Fraction
    in_denominator: bool
    clustering: ClassVar[Literal["classes"]] = "classes"
    warning: ClassVar[None] = None

    def find(
        self, scores: Float[Tensor, "b n"], self_index: SelfIndex, training: float, clusters: Clusters | None
    ) -> Selection | None:
        """The columns of the query's class; None before `start`."""
        return clustered(clusters, self_index) if training >= self.start else None


@dataclass(frozen=True, kw_only=True)
class NearestRow(Section):
    """The other row that is closest to the query's own row takes its place as the positive, from `start` on.

    It needs a row for each image: a memory bank. The query's own row is then not a candidate, and the denominator has
    the closest row once. In the paper, another view's embedding replaces the own row, and a queue replaces the bank.

    Source: Dwibedi et al. 2021, arXiv:2104.14548, Section 3.

    >>> config = annulus.ContrastConfig(neighbours=annulus.negatives.NearestRow(start=0.0), negatives=64)
    """

    start: Fraction
    clustering: ClassVar[None] = None
    in_denominator: ClassVar[bool] = True
    warning: ClassVar[None] = None

    def find(
        self, scores: Float[Tensor, "b n"], self_index: SelfIndex, training: float, clusters: Clusters | None
    ) -> Selection | None:
        """The closest other column, by the scores of the own rows; None before `start`."""
        return by_rank.closest(scores, self_index, 0, 1) if training >= self.start else None


NEIGHBOURS = {  # by their keys in params.yaml
    "none": NoNeighbours,
    "s": CloseNeighbours,
    "k": ClusterNeighbours,
    "class": ClassNeighbours,
    "nearest": NearestRow,
}
