"""k-means clusters of the memory's rows: by faiss on a CPU, in PyTorch on a GPU."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.rng import derive
from annulus.errors import InputError, load_faiss
from annulus.negatives.lloyd import lloyd

MARKED = 4  # from a quarter of the columns on, all are compared in their order, which memory gives faster


class Clustering(NamedTuple):
    """Settings of k-means: clusters, iterations, and independent runs."""

    clusters: int
    iterations: int
    runs: int


@dataclass(frozen=True)
class Clusters:
    """The cluster, in each of several runs, of the columns and of the queries; -1: in none.

    Where each query has columns of its own (a batch without the query's views), `columns` has a place for the query.

    >>> columns = torch.tensor([[0, 0, 1, 1]])  # one clustering of four columns
    >>> clusters = annulus.negatives.Clusters(columns, queries=torch.tensor([[1]]))
    >>> clusters.shared(torch.tensor([[0, 1, 2, 3]]))
    tensor([[False, False,  True,  True]])
    """

    columns: Int[Tensor, "runs n"] | Int[Tensor, "runs b n"]
    queries: Int[Tensor, "runs b"]

    def check(self, queries: int, columns: int) -> None:
        """Refuse clusters of other scores.

        Raises:
            InputError: unless both are tensors of whole numbers, for so many queries and columns, of the same runs.
        """
        shapes = [tuple(each.shape) if isinstance(each, Tensor) else () for each in (self.columns, self.queries)]
        runs = shapes[0][:1]
        if shapes[1] != (*runs, queries) or shapes[0] not in ((*runs, columns), (*runs, queries, columns)):
            raise InputError(
                f"clusters of columns of shape {shapes[0]} and of queries of shape {shapes[1]}: give tensors of shape "
                f"(runs, {columns}) and (runs, {queries})"
            )

    def of(self, some: slice) -> "Clusters":
        """Those of some queries."""
        return Clusters(self.columns if self.columns.dim() == 2 else self.columns[:, some], self.queries[:, some])

    def marked(self) -> Bool[Tensor, "b n"]:
        """Which of all columns are in the query's own cluster, in any of the runs."""
        marked = torch.zeros(
            self.queries.shape[1], self.columns.shape[-1], dtype=torch.bool, device=self.columns.device
        )
        for columns, queries in zip(self.columns, self._own(), strict=True):
            marked.logical_or_(columns == queries)
        return marked

    def shared(self, index: Int[Tensor, "b m"]) -> Bool[Tensor, "b m"]:
        """Mask of the columns that are in the query's own cluster in any of the runs."""
        if MARKED * index.shape[1] >= self.columns.shape[-1]:
            return self.marked().gather(1, index)
        inside = torch.zeros_like(index, dtype=torch.bool)
        for columns, queries in zip(self.columns, self._own(), strict=True):
            found = columns[index] if columns.dim() == 1 else columns.gather(1, index)
            inside.logical_or_(found == queries)
        return inside

    def _own(self) -> Int[Tensor, "runs b 1"]:
        """The queries' clusters, with which no column is equal where a query is in none."""
        return self.queries.where(self.queries >= 0, -2)[..., None]


def fewer_clusters(clusters: int, rows: int) -> int:
    """The same number, or where there are fewer rows than that, one cluster for two rows."""
    return clusters if clusters <= rows else max(rows // 2, 2)


def kmeans(rows: Float[Tensor, "n d"], clusters: int, iterations: int, runs: int, seed: int) -> Int[Tensor, "runs n"]:
    """The cluster of each row, in `runs` clusterings with different starts. Euclidean distance, as LA's.

    The same seed gives the same clusters on one kind of device, however many threads work. faiss splits a large cluster
    when another runs empty; where there are fewer different rows than clusters, some stay empty.

    Raises:
        InputError: when there are fewer rows than clusters.
        ModuleNotFoundError: on a CPU, where faiss is not installed.
    """
    if clusters > len(rows):
        raise InputError(f"{clusters} clusters of {len(rows)} rows: give at most as many clusters as rows")
    if rows.is_cuda:
        return lloyd(rows, clusters, iterations, runs, seed)
    faiss = load_faiss()
    points = rows.detach().float().numpy()

    def assign(run: int) -> Tensor:
        machine = faiss.Kmeans(
            points.shape[1],
            clusters,
            niter=iterations,
            seed=derive(seed, "kmeans", run) % 2**31,
            # Every row counts, and small clusters are no mistake: faiss would subsample, or warn.
            min_points_per_centroid=1,
            max_points_per_centroid=len(points),
        )
        machine.train(points)
        return torch.from_numpy(machine.index.search(points, 1)[1][:, 0])

    # A thread for each run rather than all threads for one: faiss waits for its slowest thread hundreds of times per
    # run, which takes several times as long where other programs share the cores.
    threads = torch.get_num_threads()
    workers = min(runs, threads)
    with ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(threads // workers,)) as pool:
        assigned = list(pool.map(assign, range(runs)))
    return torch.stack(assigned).int()
