"""Exact negatives against sorting every score and gathering K x d rows, and against the score product alone.

Also one k-means clustering of the memory against Lloyd's rule in plain torch, and the neighbours computed from it. The
target is at most two seconds per clustering on two cores.
"""

from functools import partial

import torch
import torch.nn.functional as F
from timing import calls_per_turn, medians, write
from torch import Tensor

from annulus.device.device import pick_device
from annulus.negatives.clusters import Clusters, kmeans
from annulus.negatives.neighbours import closest, clustered
from annulus.negatives.samplers import Ball, Cave, Ring, Sampler, Uniform

IMAGES, DIM, BATCH, NEGATIVES, REPETITIONS = 50_000, 128, 256, 4_096, 11
CLUSTERS, ITERATIONS, CLUSTERINGS = 300, 20, 5
RUNS, SHARE = 10, 0.01  # of neighbours: Wu et al. 2020, arXiv:2005.13149, Appendix C.2

SAMPLERS: dict[str, Sampler] = {
    "uniform": Uniform(),
    "ball": Ball(0.1),
    "ring": Ring(inner=0.01, outer=0.1),
    "cave": Cave(outer=0.1, keep="outside", clusters=CLUSTERS, iterations=ITERATIONS, runs=1),
}


def lloyd(rows: Tensor) -> Tensor:
    """Lloyd's rule, one product per iteration, sums by index_add. The centre of an empty cluster is zero."""
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
    one_run, all_runs = (kmeans(bank, CLUSTERS, ITERATIONS, runs, seed=0) for runs in (1, RUNS))
    clusters, neighbours = (Clusters(assignment, assignment[:, own]) for assignment in (one_run, all_runs))

    def product() -> Tensor:
        return queries @ bank.T

    scores = product()

    def ours(sampler: Sampler) -> Tensor:
        scores = product()
        return scores.gather(1, sampler.draw(scores, own, NEGATIVES, random, 1.0, clusters).index)

    def sort_and_gather() -> Tensor:
        """Ring as the papers' public code family computes it: sorts all scores, gathers K rows per query."""
        order = product().argsort(dim=1, descending=True)
        first, last = int(0.01 * IMAGES), int(0.1 * IMAGES)
        ranks = torch.randint(first, last, (BATCH, NEGATIVES), generator=random, device=device)
        return (bank[order.gather(1, ranks)] * queries[:, None]).sum(dim=2)

    seconds = medians(
        {"product": product, "sort_and_gather": sort_and_gather}
        | {name: partial(ours, sampler) for name, sampler in SAMPLERS.items()}
        | {"clustered": lambda: clustered(neighbours, own), "closest": lambda: closest(scores, own, SHARE)},
        REPETITIONS,
        calls_per_turn(device),
    )
    several = {"one_kmeans": 1, "kmeans": RUNS}
    clusterings = {name: partial(kmeans, bank, CLUSTERS, ITERATIONS, runs, 0) for name, runs in several.items()}
    seconds |= medians(clusterings | {"torch_lloyd": partial(lloyd, bank)}, CLUSTERINGS)
    sizes = {"images": IMAGES, "dim": DIM, "batch": BATCH}
    over = {f"{name}_over_product": seconds[name] / seconds["product"] for name in SAMPLERS}
    over |= {f"sort_and_gather_over_{name}": seconds["sort_and_gather"] / seconds[name] for name in SAMPLERS}
    write("negatives", device, **over, **sizes, negatives=NEGATIVES)
    write(
        "clusters",
        device,
        kmeans_seconds_one_run=seconds["one_kmeans"],
        kmeans_seconds_per_run_of_several=seconds["kmeans"] / RUNS,
        torch_lloyd_over_one_run=seconds["torch_lloyd"] / seconds["one_kmeans"],
        clustered_over_product=seconds["clustered"] / seconds["product"],
        closest_over_product=seconds["closest"] / seconds["product"],
        **sizes | {"clusters": CLUSTERS, "iterations": ITERATIONS, "runs": RUNS, "share": SHARE},
    )


if __name__ == "__main__":
    main()
