"""Exact negatives against sorting every score and gathering K x d rows, and against the score product alone."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from timing import calls_per_turn, medians, write
from torch import Tensor

from annulus.compute.device import pick_device
from annulus.negatives.clusters import Clustering, Clusters, kmeans
from annulus.negatives.samplers import Cave, Ring, Sampler

IMAGES, DIM, BATCH, NEGATIVES, REPETITIONS = 50_000, 128, 256, 4_096, 11

SAMPLERS: dict[str, Sampler] = {
    "uniform": Ring(0.0, 1.0),
    "ball": Ring(0.0, 0.1),
    "ring": Ring(0.01, 0.1),
    "cave": Cave(0.1, "outside", Clustering(clusters=300, iterations=20, runs=1)),
}


def main() -> None:
    device = pick_device()
    random = torch.Generator(device).manual_seed(0)
    bank = F.normalize(torch.randn(IMAGES, DIM, generator=random, device=device), dim=1)
    queries = F.normalize(torch.randn(BATCH, DIM, generator=random, device=device), dim=1)
    own = torch.randint(IMAGES, (BATCH,), generator=random, device=device)
    of_rows = kmeans(bank, *SAMPLERS["cave"].clustering, seed=0)
    clusters = Clusters(of_rows, of_rows[:, own])

    def product() -> Tensor:
        return queries @ bank.T

    def ours(sampler: Sampler) -> Callable[[], Tensor]:
        def scores_of_negatives() -> Tensor:
            scores = product()
            return scores.gather(1, sampler.draw(scores, own, NEGATIVES, random, 1.0, clusters).index)

        return scores_of_negatives

    def sort_and_gather() -> Tensor:
        """The ring as the papers' public code family does it: sort all scores, gather K rows per query."""
        order = product().argsort(dim=1, descending=True)
        first, last = int(0.01 * IMAGES), int(0.1 * IMAGES)
        drawn = torch.randint(first, last, (BATCH, NEGATIVES), generator=random, device=device)
        return (bank[order.gather(1, drawn)] * queries[:, None]).sum(dim=2)

    seconds = medians(
        {"product": product, "sort_and_gather": sort_and_gather}
        | {name: ours(sampler) for name, sampler in SAMPLERS.items()},
        REPETITIONS,
        calls_per_turn(device),
    )
    write(
        "negatives",
        {f"{name}_over_product": round(seconds[name] / seconds["product"], 2) for name in SAMPLERS}
        | {f"sort_and_gather_over_{name}": round(seconds["sort_and_gather"] / seconds[name], 1) for name in SAMPLERS}
        | {"images": IMAGES, "dim": DIM, "batch": BATCH, "negatives": NEGATIVES},
        device,
    )


if __name__ == "__main__":
    main()
