"""Which columns of the scores are further positives: the closest ones (s), or those of the query's clusters (k).

A query's own column, where it has one, is a positive already and is never returned.
"""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.negatives.samplers import Clusters, Negatives, select


def share_at(share: float, start: float, until: float, trained: float) -> float:
    """The share of the other columns that are neighbours once `trained` (a share of training, as start and until).

    None up to `start`, then in a straight line to `share` at `until`, where it stays: mutualinfo C.2, there to 1 % from
    epoch 10 to 100 of 200.
    """
    if trained >= until:
        return share
    if trained <= start:
        return 0.0
    return share * (trained - start) / (until - start)


def closest(scores: Float[Tensor, "b n"], own: Int[Tensor, "b"] | None, share: float) -> Negatives:
    """s-neighbours: the floor(share * others) other columns that score highest; none, when that is 0.

    `own` is each query's own column, -1 where it has none; None: no query has one. Others are counted as for negatives,
    one less than the columns where a query may have its own, so that with the same share the neighbours end where a
    ring begins. Source: mutualinfo section 2, + s-neigh.
    """
    # As config.rank_limits rounds, but for the empty set, which is no mistake here.
    count = math.floor(round(share * (scores.shape[1] - (own is not None)), 6))
    if count == 0:
        return Negatives(torch.empty(len(scores), 0, dtype=torch.int64, device=scores.device))
    return Negatives(select(scores, own, 0, count))


def clustered(
    clusters: Int[Tensor, "runs n"] | Int[Tensor, "runs b n"],
    query_clusters: Int[Tensor, "runs b"],
    own: Int[Tensor, "b"] | None,
) -> Negatives:
    """k-neighbours: the other columns in the query's cluster, united over the clusterings.

    `clusters` holds each column's cluster, -1 for none, in each clustering; with columns that differ by query (a batch
    as its own memory) there is one row of them per query. `own` as in `closest`.

    Source: mutualinfo section 2 (+ k-neigh, from S_1) and C.2 (10 runs). How the runs combine is left open there; here
    they are united.
    """
    queries = query_clusters.shape[1]
    if clusters.ndim == 3:
        every = torch.arange(clusters.shape[2], device=clusters.device).expand(queries, -1)
        query, column = Clusters(clusters, query_clusters).shared(every).nonzero(as_tuple=True)
    else:
        query, column = _members(clusters, query_clusters)
    if own is not None:
        others = column != own[query]
        query, column = query[others], column[others]
    counts = query.bincount(minlength=queries)
    present = torch.arange(int(counts.max()), device=counts.device) < counts[:, None]
    rows = torch.zeros_like(present, dtype=torch.int64)
    rows[present] = column  # by query, as the places are
    return Negatives(rows, present)


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
