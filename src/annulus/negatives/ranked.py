"""The columns of given ranks: exact, and selected rather than sorted: this costs about as much as making the scores."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 2**17  # scores that a thread selects from at a time: they stay in its cache, and calls are few
THREADED = 2**22  # scores; with fewer, threads take longer to begin, while torch's own still spin, than they save


def select(
    scores: Float[Tensor, "b n"],
    self_index: Int[Tensor, "b"] | None,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """The columns whose rank is in [first, last), highest score first; equal scores rank in any order.

    The column `self_index` of a query (-1: the query has none) has no rank. The columns come in no particular order,
    but the same scores give the same order. With `picked`, only the columns at these places of it are returned.
    """
    if scores.is_cuda:
        ranked = scores if self_index is None else _without(scores, self_index)
        closest = ranked.topk(last, sorted=False)
        members = closest.indices
        if first > 0:
            ring = closest.values.topk(last - first, largest=False, sorted=False).indices
            members = members.gather(1, ring)
        return members if picked is None else members.gather(1, picked)

    values = scores.detach().numpy()
    own = np.full(len(values), -1) if self_index is None else self_index.numpy()
    places = None if picked is None else picked.numpy()
    selected = np.empty((len(values), last - first) if places is None else places.shape, dtype=np.int64)
    block = max(1, BLOCK // values.shape[1])

    def select_queries(queries: range) -> None:
        for start in range(queries.start, queries.stop, block):
            some = slice(start, min(start + block, queries.stop))
            members = _select_block(values[some], own[some], first, last)
            selected[some] = members if places is None else _along(members, places[some])

    # NumPy's vectorised selection takes a quarter of torch.topk's time on a CPU, and releases the interpreter's lock,
    # so threads share the queries.
    threads = torch.get_num_threads()
    if values.size < THREADED:
        select_queries(range(len(values)))
    else:
        share = -(-len(values) // (4 * threads))
        with ThreadPoolExecutor(threads) as pool:
            parts = [range(start, min(start + share, len(values))) for start in range(0, len(values), share)]
            list(pool.map(select_queries, parts))
    return torch.from_numpy(selected)


def _select_block(scores: np.ndarray, own: np.ndarray, first: int, last: int) -> np.ndarray:
    """`select` for the scores (b, n) of a few queries and their own columns (b,)."""
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
    """Each row's values (b, n) at its places (b, k). NumPy's take_along_axis gives the same, but keeps the lock."""
    rows = np.arange(len(values))[:, None] * values.shape[1]
    return np.ascontiguousarray(values).ravel().take(rows + places)


def _without(scores: Float[Tensor, "b n"], self_index: Int[Tensor, "b"]) -> Float[Tensor, "b n"]:
    """The scores with each query's own column ranked last, where no set reaches; -1: the query has none."""
    column = self_index.clamp_min(0)[:, None]
    return scores.scatter(1, column, scores.gather(1, column).where(self_index[:, None] < 0, -torch.inf))
