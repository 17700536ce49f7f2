"""One k-means clustering of the memory against Lloyd's rule in plain torch, and the neighbours that follow from it.

The target is at most two seconds per clustering on two cores (issue 3, Speed).
"""

import torch
import torch.nn.functional as F
from timing import calls_per_turn, medians, write
from torch import Tensor

from annulus.compute.device import pick_device
from annulus.negatives.clusters import Clusters, kmeans
from annulus.negatives.neighbours import closest, clustered

IMAGES, DIM, CLUSTERS, ITERATIONS, REPETITIONS = 50_000, 128, 300, 20, 5
BATCH, RUNS, SHARE = 256, 10, 0.01  # mutualinfo C.1 and C.2


def lloyd(rows: Tensor) -> Tensor:
    """The plainest fast way: one product per iteration, sums by index_add. A cluster that runs empty stays at zero."""
    centres = rows[torch.randperm(len(rows), device=rows.device)[:CLUSTERS]]
    for _ in range(ITERATIONS):
        assigned = nearest(rows, centres)
        sums = torch.zeros_like(centres).index_add_(0, assigned, rows)
        centres = sums / assigned.bincount(minlength=CLUSTERS).clamp(min=1)[:, None]
    return nearest(rows, centres)


def nearest(rows: Tensor, centres: Tensor) -> Tensor:
    return torch.addmm(-(centres**2).sum(dim=1) / 2, rows, centres.T).argmax(dim=1)


def main() -> None:
    device = pick_device()
    torch.manual_seed(0)
    random = torch.Generator(device).manual_seed(0)
    bank = F.normalize(torch.randn(IMAGES, DIM, generator=random, device=device), dim=1)
    queries = F.normalize(torch.randn(BATCH, DIM, generator=random, device=device), dim=1)
    own = torch.randint(IMAGES, (BATCH,), generator=random, device=device)
    of_rows = kmeans(bank, CLUSTERS, 5, RUNS, seed=0)
    clusters = Clusters(of_rows, of_rows[:, own])
    scores = queries @ bank.T

    seconds = medians(
        {
            "one_kmeans": lambda: kmeans(bank, CLUSTERS, ITERATIONS, 1, seed=0),
            "kmeans": lambda: kmeans(bank, CLUSTERS, ITERATIONS, RUNS, seed=0),
            "torch_lloyd": lambda: lloyd(bank),
        },
        REPETITIONS,
        calls=1,
    )
    seconds |= medians(
        {
            "product": lambda: queries @ bank.T,
            "clustered": lambda: clustered(clusters, own),
            "closest": lambda: closest(scores, own, SHARE),
        },
        REPETITIONS,
        calls_per_turn(device),
    )
    write(
        "clusters",
        {
            "kmeans_seconds_one_run": round(seconds["one_kmeans"], 2),
            "kmeans_seconds_per_run_of_several": round(seconds["kmeans"] / RUNS, 2),
            "torch_lloyd_over_one_run": round(seconds["torch_lloyd"] / seconds["one_kmeans"], 1),
            "clustered_over_product": round(seconds["clustered"] / seconds["product"], 2),
            "closest_over_product": round(seconds["closest"] / seconds["product"], 2),
        }
        | {"images": IMAGES, "dim": DIM, "clusters": CLUSTERS, "iterations": ITERATIONS}
        | {"batch": BATCH, "runs": RUNS, "share": SHARE},
        device,
    )


if __name__ == "__main__":
    main()
