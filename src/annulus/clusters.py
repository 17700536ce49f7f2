"""k-means clusters of the memory's rows, by faiss, and which rows share one with a query."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Self

import faiss
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.rng import derive


@dataclass(frozen=True)
class Clusters:
    """The cluster of each row and of each query, in each clustering; -1: in none, which no other is in either."""

    rows: Int[Tensor, "runs n"] | Int[Tensor, "runs b n"]  # the latter where each query has rows of its own
    queries: Int[Tensor, "runs b"]

    def of(self, some: slice) -> Self:
        """The same for some of the queries."""
        return type(self)(self.rows if self.rows.ndim == 2 else self.rows[:, some], self.queries[:, some])

    def shared(self, members: Int[Tensor, "b m"]) -> Bool[Tensor, "b m"]:
        """Whether each of these rows lies in the query's cluster, in one clustering or more."""
        shared = torch.zeros_like(members, dtype=torch.bool)
        for rows, queries in zip(self.rows, self.queries, strict=True):
            clusters = rows[members] if rows.ndim == 1 else rows.gather(1, members)
            shared |= (clusters == queries[:, None]) & (queries >= 0)[:, None]
        return shared


def kmeans(rows: Float[Tensor, "n d"], clusters: int, iterations: int, runs: int, seed: int) -> Int[Tensor, "runs n"]:
    """The cluster of each row, in `runs` clusterings with different starts. Euclidean distance, as LA's.

    The same seed gives the same clusters, however many threads work. faiss splits a large cluster when another runs
    empty; where there are fewer different rows than clusters, some stay empty.
    """
    points = rows.detach().float().cpu().numpy()
    gpu = faiss.get_num_gpus() > 0

    def assign(run: int) -> Tensor:
        machine = faiss.Kmeans(
            points.shape[1],
            clusters,
            niter=iterations,
            seed=derive(seed, "kmeans", run) % 2**31,
            gpu=gpu,
            # Every row counts, and small clusters are no mistake: faiss would subsample, or warn.
            min_points_per_centroid=1,
            max_points_per_centroid=len(points),
        )
        machine.train(points)
        return torch.from_numpy(machine.index.search(points, 1)[1][:, 0])

    # A thread for each run rather than all threads for one: faiss waits for its slowest thread hundreds of times per
    # run, which takes several times as long where other programs share the cores.
    threads = torch.get_num_threads()
    workers = 1 if gpu else min(runs, threads)
    with ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(threads // workers,)) as pool:
        assigned = list(pool.map(assign, range(runs)))
    return torch.stack(assigned).int().to(rows.device)
