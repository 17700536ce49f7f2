"""Exact selection of the columns of a range of ranks, without a sort. It takes about the time of computing the scores.

On a CPU NumPy selects. In a large memory a sample of the row estimates a border: columns clearly above it are in, and
only the few columns near it are partitioned. On a GPU `annulus.negatives.threshold` selects: NumPy would make the host
wait, and torch.topk orders equal scores at random and needs memory that grows with the ranks.
"""

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.negatives import threshold
from annulus.negatives.own import SelfIndex

LARGE = 2**14  # columns from which on a sample is faster
STRIDE = 0.3  # exponent of the sample's stride in the number of columns: 1,800 samples from 45,000
BLOCK = 2**17  # scores that a thread selects from at a time: they fit its cache, and calls are few
THREADED = 2**22  # scores; with fewer, threads take longer to start, while torch's own still spin, than they save


def select(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """Selects the columns with ranks in [first, last), highest score first; equal scores rank in any order.

    Own columns rank after all others. The order of the result is arbitrary, but the same for the same scores. With
    `picked`, the result holds only the columns at these places of it.
    """
    if scores.is_cuda:
        return threshold.select(scores, self_index, first, last, picked)
    values = (scores.float() if scores.dtype == torch.bfloat16 else scores).detach().numpy()  # NumPy has no bfloat16
    own = np.full((len(values), 0), -1) if self_index is None else self_index.view(len(values), -1).numpy()
    places = None if picked is None else picked.numpy()
    selected = np.empty((len(values), last - first) if places is None else places.shape, dtype=np.int64)
    block = max(1, BLOCK // values.shape[1])

    def select_queries(queries: range) -> None:
        for start in range(queries.start, queries.stop, block):
            some = slice(start, min(start + block, queries.stop))
            ranked = _own_last(values[some], own[some])
            members = (_large if values.shape[1] >= LARGE else _partitioned)(ranked, first, last)
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


def _own_last(scores: np.ndarray, own: np.ndarray) -> np.ndarray:
    """The scores (b, n) of a few queries with -inf in their own columns (b, w) alone, so these rank last."""
    query, place = np.nonzero(own >= 0)
    if len(query):
        scores = np.maximum(scores, np.finfo(scores.dtype).min)
        scores[query, own[query, place]] = -np.inf
    return scores


def _partitioned(scores: np.ndarray, first: int, last: int) -> np.ndarray:
    """`select` for a few queries' scores (b, n)."""
    closest = np.argpartition(scores, -last)[:, -last:]
    if first == 0:
        return closest
    ring = np.argpartition(_along(scores, closest), last - first)[:, : last - first]
    return _along(closest, ring)


def _large(scores: np.ndarray, first: int, last: int) -> np.ndarray:
    """`select` for a large memory, by column; among equal scores the first columns rank first."""
    selected = np.empty((len(scores), last - first), dtype=np.int64)
    for row, members in zip(scores, selected, strict=True):
        sample = np.sort(row[:: int(len(row) ** STRIDE)])
        mask = _highest(row, last, sample)
        if first > 0:
            mask ^= _highest(row, first, sample)
        columns = np.flatnonzero(mask)
        # NaN has no order, so the count can be wrong. The loss is then NaN too, and its check raises.
        members[:] = columns if len(columns) == len(members) else _partitioned(row[None], first, last)
    return selected


def _highest(row: np.ndarray, count: int, sample: np.ndarray) -> np.ndarray:
    """Mask of the `count` columns with the highest scores; the sorted sample of the scores estimates the border."""
    share = count / len(row)
    rank, error = share * len(sample), 4 * math.sqrt(share * (1 - share) * len(sample)) + 1  # four standard deviations
    above, below = int(rank - error), math.ceil(rank + error)
    chosen = row > (sample[-above] if above > 0 else np.inf)
    near = np.flatnonzero((row >= (sample[-below] if below <= len(sample) else -np.inf)) ^ chosen)
    missing = count - np.count_nonzero(chosen)
    if not 0 <= missing <= len(near):  # the border is outside the sample's estimate
        chosen, near, missing = np.zeros_like(chosen), np.arange(len(row)), count
    if missing:
        scores = row[near]
        border = np.partition(scores, -missing)[-missing]
        over = scores > border
        chosen[near[over]] = True
        chosen[near[scores == border][: missing - np.count_nonzero(over)]] = True
    return chosen


def _along(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Each row's values (b, n) at its places (b, k), as NumPy's take_along_axis, which holds Python's lock."""
    rows = np.arange(len(values))[:, None] * values.shape[1]
    return np.ascontiguousarray(values).ravel().take(rows + places)
