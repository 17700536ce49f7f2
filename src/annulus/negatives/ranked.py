"""The columns of given ranks: exact, and selected rather than sorted: this costs about as much as making the scores.

`self_index` holds the columns of a query's own image, which have no rank:

    None        no query has one: the other views of a batch
    (b,)        every query has one: a bank
    (b, w)      a query has up to w, padded with -1: a queue, which may hold several keys of an image, or none
"""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from jaxtyping import Bool, Float, Int, Shaped
from torch import Tensor

BLOCK = 2**17  # scores that a thread selects from at a time: they stay in its cache, and calls are few
THREADED = 2**22  # scores; with fewer, threads take longer to begin, while torch's own still spin, than they save
SelfIndex = Int[Tensor, "b"] | Int[Tensor, "b w"] | None


def select(
    scores: Float[Tensor, "b n"],
    self_index: SelfIndex,
    first: int,
    last: int,
    picked: Int[Tensor, "b k"] | None = None,
) -> Int[Tensor, "b m"]:
    """The columns whose rank is in [first, last), highest score first; equal scores rank in any order.

    Own columns rank after all others. The columns come in no particular order, but the same scores give the same
    order. With `picked`, only the columns at these places of it are returned.
    """
    if scores.is_cuda:
        ranked = scores if self_index is None else scores.masked_fill(own_columns(scores, self_index), -torch.inf)
        closest = ranked.topk(last, sorted=False)
        members = closest.indices
        if first > 0:
            ring = closest.values.topk(last - first, largest=False, sorted=False).indices
            members = members.gather(1, ring)
        return members if picked is None else members.gather(1, picked)

    values = (scores.float() if scores.dtype == torch.bfloat16 else scores).detach().numpy()  # NumPy has no bfloat16
    own = np.full((len(values), 0), -1) if self_index is None else self_index.view(len(values), -1).numpy()
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


def own_columns(scores: Shaped[Tensor, "b n"], self_index: SelfIndex) -> Bool[Tensor, "b n"]:
    """Which columns are of the query's own image."""
    count = scores.shape[1]
    mask = torch.zeros(len(scores), count + 1, dtype=torch.bool, device=scores.device)
    if self_index is not None:
        columns = self_index.view(len(scores), -1)
        mask.scatter_(1, columns.where(columns >= 0, count), True)  # padding marks a column that is cut off
    return mask[:, :count]


def _select_block(scores: np.ndarray, own: np.ndarray, first: int, last: int) -> np.ndarray:
    """`select` for the scores (b, n) of a few queries and their own columns (b, w)."""
    query, place = np.nonzero(own >= 0)
    if len(query):
        scores = scores.copy()
        scores[query, own[query, place]] = -np.inf  # ranks last
    closest = np.argpartition(scores, -last)[:, -last:]
    if first == 0:
        return closest
    ring = np.argpartition(_along(scores, closest), last - first)[:, : last - first]
    return _along(closest, ring)


def _along(values: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Each row's values (b, n) at its places (b, k). NumPy's take_along_axis gives the same, but keeps the lock."""
    rows = np.arange(len(values))[:, None] * values.shape[1]
    return np.ascontiguousarray(values).ravel().take(rows + places)
