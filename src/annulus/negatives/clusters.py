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

MARKED = 4  # from a quarter of the columns on, comparing all columns in memory order is faster


class Clustering(NamedTuple):
    """Settings of k-means: numbers of clusters, of iterations, and of independent runs."""

    clusters: int
    iterations: int
    runs: int


@dataclass(frozen=True)
class Clusters:
    """The clusters of the columns and of the queries, in each of several runs; -1: without a cluster.

    If each query has its own columns (a batch without the query's views), `columns` has an axis for the queries.

    >>> columns = torch.tensor([[0, 0, 1, 1]])  # one clustering of four columns
    >>> clusters = annulus.negatives.Clusters(columns, queries=torch.tensor([[1]]))
    >>> clusters.shared(torch.tensor([[0, 1, 2, 3]]))
    tensor([[False, False,  True,  True]])
    """

    columns: Int[Tensor, "runs n"] | Int[Tensor, "runs b n"]
    queries: Int[Tensor, "runs b"]

    def check(self, queries: int, columns: int) -> None:
        """Checks that the clusters fit scores of this shape.

        Raises:
            InputError: unless both are tensors of integers for these numbers of queries and columns, of the same runs.
        """
        shapes = [tuple(part.shape) if isinstance(part, Tensor) else () for part in (self.columns, self.queries)]
        runs = shapes[0][:1]
        if shapes[1] != (*runs, queries) or shapes[0] not in ((*runs, columns), (*runs, queries, columns)):
            raise InputError(
                f"clusters of columns of shape {shapes[0]} and of queries of shape {shapes[1]}: give tensors of shape "
                f"(runs, {columns}) and (runs, {queries})"
            )

    def pick(self, some: slice) -> "Clusters":
        """The clusters of some queries."""
        return Clusters(self.columns if self.columns.dim() == 2 else self.columns[:, some], self.queries[:, some])

    def marked(self) -> Bool[Tensor, "b n"]:
        """Mask of all columns: True in the query's cluster, in any of the runs."""
        marked = torch.zeros(
            self.queries.shape[1], self.columns.shape[-1], dtype=torch.bool, device=self.columns.device
        )
        for columns, queries in zip(self.columns, self._own(), strict=True):
            marked.logical_or_(columns == queries)
        return marked

    def shared(self, index: Int[Tensor, "b m"]) -> Bool[Tensor, "b m"]:
        """Mask of the columns `index`: True in the query's cluster, in any of the runs."""
        if MARKED * index.shape[1] >= self.columns.shape[-1]:
            return self.marked().gather(1, index)
        inside = torch.zeros_like(index, dtype=torch.bool)
        for columns, queries in zip(self.columns, self._own(), strict=True):
            column_clusters = columns[index] if columns.dim() == 1 else columns.gather(1, index)
            inside.logical_or_(column_clusters == queries)
        return inside

    def _own(self) -> Int[Tensor, "runs b 1"]:
        """The queries' clusters; -2, which equals no column's cluster, for a query without one."""
        return self.queries.where(self.queries >= 0, -2)[..., None]


def fewer_clusters(clusters: int, rows: int) -> int:
    """The number of clusters; if there are fewer rows, one cluster for two rows."""
    return clusters if clusters <= rows else max(rows // 2, 2)


def kmeans(rows: Float[Tensor, "n d"], clusters: int, iterations: int, runs: int, seed: int) -> Int[Tensor, "runs n"]:
    """Clusters the rows by Euclidean distance (as LA), in `runs` clusterings with different starts.

    The same seed gives the same clusters on one kind of device, with any number of threads. faiss splits a large
    cluster when another becomes empty. If there are fewer different rows than clusters, some clusters stay empty.

    Raises:
        InputError: if there are fewer rows than clusters.
        ModuleNotFoundError: on a CPU, if faiss is not installed.
    """
    if clusters > len(rows):
        raise InputError(f"{clusters} clusters of {len(rows)} rows: give {len(rows)} clusters at most")
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
            # These defaults of faiss would subsample the rows, and warn about small clusters.
            min_points_per_centroid=1,
            max_points_per_centroid=len(points),
        )
        machine.train(points)
        return torch.from_numpy(machine.index.search(points, 1)[1][:, 0])

    # Each run has its own thread. With all threads on one run, faiss would wait for the slowest thread hundreds of
    # times, which takes several times longer if other programs share the cores.
    threads = torch.get_num_threads()
    workers = min(runs, threads)
    with ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(threads // workers,)) as pool:
        assigned = list(pool.map(assign, range(runs)))
    return torch.stack(assigned).int()
