"""Which rows of the memory stand against the positive: uniform, ball, ring, cave.

Rows are ranked by similarity to the query, most similar first; the query's own row has no rank and is
never a negative. With m other rows, a set keeps the ranks floor(inner * m) up to, not including,
floor(outer * m). Ranks are exact: the rows are selected, never sorted, which costs about as much as
making their scores.
"""

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.config import BallParams, CaveParams, RingParams, SamplerParams, rank_limits
from annulus.errors import InputError

CAVE_QUERIES = 128


@dataclass(frozen=True)
class Negatives:
    """Rows of the memory per query; where the sets differ in size, `present` is false on the padding."""

    rows: Int[Tensor, "b k"]
    present: Bool[Tensor, "b k"] | None = None

    def mask(self, scores: Float[Tensor, "b k"]) -> Float[Tensor, "b k"]:
        """Scores of these rows with absent ones at -inf, where they add nothing to a denominator."""
        return scores if self.present is None else scores.masked_fill(~self.present, -torch.inf)

    def ceiling(self) -> Float[Tensor, ""]:
        """log(1 + number of negatives), mean over queries: what an InfoNCE estimate cannot exceed."""
        if self.present is None:
            return torch.tensor(math.log1p(self.rows.shape[1]), device=self.rows.device)
        return self.present.sum(dim=1).log1p().mean()


def kept_shares(sampler: SamplerParams, progress: float) -> tuple[float, float]:
    """(inner, outer) on the way from the whole memory (progress 0) to the sampler's own set (1).

    Both borders move in a straight line, the outer one inwards and the inner one outwards: mutualinfo C.2 lets the
    inner ball grow while the outer one shrinks (there from epoch 10 on; here from the start).
    """
    if not isinstance(sampler, BallParams):
        return 0.0, 1.0
    inner = sampler.inner if isinstance(sampler, RingParams) else 0.0
    return inner * progress, 1 + (sampler.outer - 1) * progress


def draw(
    similarity: Float[Tensor, "b n"],
    own: Int[Tensor, "b"],
    k: int | Literal["all"],
    sampler: SamplerParams,
    progress: float,
    generator: torch.Generator,
    clusters: Int[Tensor, "runs n"] | None = None,
) -> Negatives:
    """Negatives of each query: k rows, uniformly with replacement from its set, or `all` of the set.

    `own` is each query's row, `clusters` the k-means cluster of every row, which cave alone needs.
    `progress` in [0, 1] anneals from the whole memory to the sampler's set; cave's clusters count in full as soon as
    it is above 0.

    Raises:
        InputError: when a set is empty.
    """
    others = similarity.shape[1] - 1
    first, last = rank_limits(*kept_shares(sampler, progress), others)
    if isinstance(sampler, CaveParams) and progress > 0:
        # A few queries at a time: early in annealing, what is worked on would take the scores' memory many times.
        parts = [
            _draw_cave(select(some, owns, first, last), owns, k, sampler, generator, clusters)
            for some, owns in zip(similarity.split(CAVE_QUERIES), own.split(CAVE_QUERIES), strict=True)
        ]
        rows = torch.cat([part.rows for part in parts])
        return Negatives(rows, torch.cat([part.present for part in parts]) if k == "all" else None)
    if k == "all":
        return Negatives(select(similarity, own, first, last))
    picked = torch.randint(last - first, (len(own), k), generator=generator, device=own.device)
    if (first, last) == (0, others):  # the whole memory: no ranks needed
        return Negatives(picked + (picked >= own[:, None]))  # steps over the own row
    return Negatives(select(similarity, own, first, last, picked))


def select(
    similarity: Float[Tensor, "b n"],
    own: Int[Tensor, "b"],
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """The rows whose rank is in [first, last), exact; equal scores rank in any order.

    They come in no particular order, but the same scores give the same one: with `picked`, only the rows at
    these places of it are returned.
    """
    if similarity.is_cuda:
        ranked = similarity.scatter(1, own[:, None], -torch.inf)
        closest = ranked.topk(last, sorted=False)
        members = closest.indices
        if first > 0:
            ring = closest.values.topk(last - first, largest=False, sorted=False).indices
            members = members.gather(1, ring)
        return members if picked is None else members.gather(1, picked)

    scores, own_rows = similarity.detach().numpy(), own.tolist()
    places = None if picked is None else picked.numpy()
    selected = np.empty((len(scores), last - first) if places is None else places.shape, dtype=np.int64)

    def select_rows(queries: range) -> None:
        for query in queries:
            members = _select_row(scores[query], own_rows[query], first, last)
            selected[query] = members if places is None else members[places[query]]

    # NumPy's vectorised selection takes a quarter of torch.topk's time on a CPU, and lets go of the
    # interpreter's lock, so threads share the queries.
    parts = [range(start, min(start + 16, len(scores))) for start in range(0, len(scores), 16)]
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(select_rows, parts))
    return torch.from_numpy(selected)


def _select_row(scores: np.ndarray, own: int, first: int, last: int) -> np.ndarray:
    """`select` for the scores (n,) of one query."""
    scores = scores.copy()
    scores[own] = -np.inf  # ranks last, where no set reaches
    closest = np.argpartition(scores, -last)[-last:]
    if first == 0:
        return closest
    return closest[np.argpartition(scores[closest], last - first)[: last - first]]


def _draw_cave(
    members: Int[Tensor, "b m"],
    own: Int[Tensor, "b"],
    k: int | Literal["all"],
    sampler: CaveParams,
    generator: torch.Generator,
    clusters: Int[Tensor, "runs n"],
) -> Negatives:
    """The members outside the query's own cluster, united over the clusterings; or those inside it."""
    inside = torch.zeros_like(members, dtype=torch.bool)
    for cluster in clusters:
        inside |= cluster[members] == cluster[own][:, None]
    kept = inside if sampler.keep == "inside" else ~inside
    counts = kept.sum(dim=1)
    if (counts == 0).any():
        row = own[counts == 0][0].item()
        raise InputError(
            f"cave (keep: {sampler.keep}, clusters: {sampler.clusters}) leaves the query of row {row} none of its "
            f"{members.shape[1]} closest rows; "
            f"take {'fewer' if sampler.keep == 'inside' else 'more'} clusters or a wider ball"
        )
    if k == "all":
        return Negatives(members, kept)
    # The kept members of all queries in one list; each query draws from its own stretch of it.
    listed = members[kept]
    starts = counts.cumsum(0) - counts
    uniform = torch.rand(len(own), k, generator=generator, device=own.device, dtype=torch.float64)
    drawn = (uniform * counts[:, None]).long()
    return Negatives(listed[starts[:, None] + drawn])
