"""Which rows of the memory stand against the positive: uniform, ball, ring, cave.

Rows are ranked by similarity to the query, most similar first; the query's own row has no rank and is
never a negative. With m other rows, a set keeps the ranks floor(inner * m) up to, not including,
floor(outer * m). Ranks are exact: the rows are selected, never sorted, which costs about as much as
making their scores.

In a bank every query has its own row; in a queue only where an older key of its image is still there; among
the other views of a batch none has. Where a query may have one, m is one less than the memory for all queries, so
that their sets are equally large and a GPU need not be asked which have it.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.config.negatives import CaveParams, SamplerParams
from annulus.errors import InputError
from annulus.ranks import kept_shares, rank_limits

CAVE_QUERIES = 128
BLOCK = 2**17  # scores that a thread selects from at a time: they stay in its cache, and calls are few
THREADED = 2**22  # scores; with fewer, threads take longer to begin, while torch's own still spin, than they save


@dataclass(frozen=True)
class Negatives:
    """Rows of the memory per query, or None for every row in its order; false in `present`: not in the set."""

    rows: Int[Tensor, "b k"] | None
    present: Bool[Tensor, "b k"] | None = None

    def mask(self, scores: Float[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        """Scores of these rows with absent ones at -inf, where they add nothing to a denominator."""
        return scores if self.present is None else scores.masked_fill(~self.present, -torch.inf)


@dataclass(frozen=True)
class Clusters:
    """The k-means cluster, in each of several runs, of the memory's rows and of the queries; -1: in none.

    Where each query has rows of its own (a batch without the query's views), `rows` has a place for the query too.
    """

    rows: Int[Tensor, "runs n"] | Int[Tensor, "runs b n"]
    queries: Int[Tensor, "runs b"]

    def of(self, some: slice) -> "Clusters":
        """Those of some queries."""
        return Clusters(self.rows if self.rows.dim() == 2 else self.rows[:, some], self.queries[:, some])

    def shared(self, members: Int[Tensor, "b m"]) -> Bool[Tensor, "b m"]:
        """Which of these rows are in the query's own cluster, in any of the runs."""
        inside = torch.zeros_like(members, dtype=torch.bool)
        for rows, queries in zip(self.rows, self.queries, strict=True):
            of_members = rows[members] if rows.dim() == 1 else rows.gather(1, members)
            inside |= (of_members == queries[:, None]) & (queries[:, None] >= 0)
        return inside


def draw(
    similarity: Float[Tensor, "b n"],
    own: Int[Tensor, "b"] | None,
    k: int | Literal["all"],
    sampler: SamplerParams,
    progress: float,
    generator: torch.Generator,
    clusters: Clusters | None = None,
) -> Negatives:
    """Negatives of each query: k rows, uniformly with replacement from its set, or `all` of the set.

    `own` is each query's own row, -1 where it has none; None: no query has one. `clusters` are the k-means
    clusters of rows and queries, which cave alone needs.
    `progress` in [0, 1] anneals from the whole memory to the sampler's set; cave's clusters count in full as soon as
    it is above 0.

    Raises:
        InputError: when a set is empty.
    """
    others = similarity.shape[1] - (own is not None)
    first, last = rank_limits(*kept_shares(sampler.shares, progress), others)
    if isinstance(sampler, CaveParams) and progress > 0:
        # A few queries at a time: early in annealing, what is worked on would take the scores' memory many times.
        parts = []
        for start in range(0, len(similarity), CAVE_QUERIES):
            some = slice(start, start + CAVE_QUERIES)
            members = select(similarity[some], None if own is None else own[some], first, last)
            parts.append(_draw_cave(members, k, sampler, generator, clusters.of(some)))
        rows = torch.cat([part.rows for part in parts])
        return Negatives(rows, torch.cat([part.present for part in parts]) if k == "all" else None)
    whole = (first, last) == (0, others)
    if k == "all":
        if not whole:
            return Negatives(select(similarity, own, first, last))
        if own is None:
            return Negatives(None)
        present = torch.ones_like(similarity, dtype=torch.bool)
        return Negatives(None, present.scatter_(1, own.clamp_min(0)[:, None], (own < 0)[:, None]))
    picked = torch.randint(last - first, (len(similarity), k), generator=generator, device=similarity.device)
    if not whole:
        return Negatives(select(similarity, own, first, last, picked))
    if own is not None:  # no ranks needed: step over the own row, or where there is none over the last
        picked = picked + (picked >= own.where(own >= 0, others)[:, None])
    return Negatives(picked)


def select(
    similarity: Float[Tensor, "b n"],
    own: Int[Tensor, "b"] | None,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """The rows whose rank is in [first, last), exact; equal scores rank in any order.

    They come in no particular order, but the same scores give the same one: with `picked`, only the rows at
    these places of it are returned.
    """
    if similarity.is_cuda:
        ranked = similarity if own is None else _without(similarity, own)
        closest = ranked.topk(last, sorted=False)
        members = closest.indices
        if first > 0:
            ring = closest.values.topk(last - first, largest=False, sorted=False).indices
            members = members.gather(1, ring)
        return members if picked is None else members.gather(1, picked)

    scores = similarity.detach().numpy()
    own_rows = np.full(len(scores), -1) if own is None else own.numpy()
    places = None if picked is None else picked.numpy()
    selected = np.empty((len(scores), last - first) if places is None else places.shape, dtype=np.int64)
    block = max(1, BLOCK // scores.shape[1])

    def select_queries(queries: range) -> None:
        for start in range(queries.start, queries.stop, block):
            some = slice(start, min(start + block, queries.stop))
            members = _select_block(scores[some], own_rows[some], first, last)
            selected[some] = members if places is None else _along(members, places[some])

    # NumPy's vectorised selection takes a quarter of torch.topk's time on a CPU, and lets go of the
    # interpreter's lock, so threads share the queries.
    threads = torch.get_num_threads()
    if scores.size < THREADED:
        select_queries(range(len(scores)))
    else:
        share = -(-len(scores) // (4 * threads))
        with ThreadPoolExecutor(threads) as pool:
            parts = [range(start, min(start + share, len(scores))) for start in range(0, len(scores), share)]
            list(pool.map(select_queries, parts))
    return torch.from_numpy(selected)


def _select_block(scores: np.ndarray, own: np.ndarray, first: int, last: int) -> np.ndarray:
    """`select` for the scores (b, n) of a few queries and their own rows (b,)."""
    if (own >= 0).any():
        scores = scores.copy()
        having = np.flatnonzero(own >= 0)
        scores[having, own[having]] = -np.inf  # ranks last, where no set reaches
    closest = np.argpartition(scores, -last)[:, -last:]
    if first == 0:
        return closest
    ring = np.argpartition(_along(scores, closest), last - first)[:, : last - first]
    return _along(closest, ring)


def _along(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Each row's values (b, n) at its places (b, k). NumPy's take_along_axis says the same, but keeps the lock."""
    rows = np.arange(len(values))[:, None] * values.shape[1]
    return np.ascontiguousarray(values).ravel().take(rows + places)


def _without(similarity: Float[Tensor, "b n"], own: Int[Tensor, "b"]) -> Float[Tensor, "b n"]:
    """The scores with own rows ranked last, where no set reaches; -1: the query has none."""
    column = own.clamp_min(0)[:, None]
    return similarity.scatter(1, column, similarity.gather(1, column).where(own[:, None] < 0, -torch.inf))


def _draw_cave(
    members: Int[Tensor, "b m"],
    k: int | Literal["all"],
    sampler: CaveParams,
    generator: torch.Generator,
    clusters: Clusters,
) -> Negatives:
    """The members outside the query's own cluster, united over the clusterings; or those inside it."""
    inside = clusters.shared(members)
    kept = inside if sampler.keep == "inside" else ~inside
    counts = kept.sum(dim=1)
    if (counts == 0).any():
        raise InputError(
            f"cave (keep: {sampler.keep}, clusters: {sampler.clusters}) leaves {int((counts == 0).sum())} queries none "
            f"of their {members.shape[1]} closest rows; "
            f"take {'fewer' if sampler.keep == 'inside' else 'more'} clusters or a wider ball"
        )
    if k == "all":
        return Negatives(members, kept)
    # The kept members of all queries in one list; each query draws from its own stretch of it.
    listed = members[kept]
    starts = counts.cumsum(0) - counts
    uniform = torch.rand(len(members), k, generator=generator, device=members.device, dtype=torch.float64)
    drawn = (uniform * counts[:, None]).long()
    return Negatives(listed[starts[:, None] + drawn])
