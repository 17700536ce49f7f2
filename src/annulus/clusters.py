"""k-means clusters of the memory's rows, by faiss."""

import faiss
import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.rng import derive


def kmeans(rows: Float[Tensor, "n d"], clusters: int, iterations: int, runs: int, seed: int) -> Int[Tensor, "runs n"]:
    """The cluster of each row, in `runs` clusterings with different starts. Euclidean distance, as LA's."""
    points = rows.detach().float().cpu().numpy()
    assigned = []
    for run in range(runs):
        machine = faiss.Kmeans(
            points.shape[1],
            clusters,
            niter=iterations,
            seed=derive(seed, "kmeans", run) % 2**31,
            gpu=faiss.get_num_gpus() > 0,
            # Every row counts, and small clusters are no mistake: faiss would subsample, or warn.
            min_points_per_centroid=1,
            max_points_per_centroid=len(points),
        )
        machine.train(points)
        assigned.append(torch.from_numpy(machine.index.search(points, 1)[1][:, 0]))
    return torch.stack(assigned).int().to(rows.device)
