"""Bias and variance of NCE and CNCE over the number of negatives, with a trained encoder held fixed."""

import argparse
import statistics

import _path  # noqa: F401  this checkout's src first
import torch

from annulus.compute.rng import generator
from annulus.config.study import Study
from annulus.estimators.spread import Spread, spread_over_draws
from annulus.files.results import Number, write_table
from annulus.negatives.build import build_sampler
from annulus.pipeline.stage import Results, run_study
from annulus.training.loop import Training
from annulus.trials import Trials, load_splits
from annulus.views.recipe import augment

READS = [
    "datasets",
    "methods",
    "bounds",
    "samplers",
    "anneals",
    "neighbour_sets",
    "view_sets",
    "backbones",
    "optimizer",
    "schedules",
    "knn",
    "linear",
    "scales",
]
OWN = ["scale", "seeds", "defaults", "scales", "estimates"]
PATHS = ["images", "points"]


def main(study: Study, paths: argparse.Namespace) -> Results:
    settings = study.content["estimates"]
    torch.set_num_threads(1)  # as the other parts' trials, so that the numbers do not depend on the cores
    trials = Trials("negatives", load_splits(paths.images))
    found: dict[tuple[str, int], list[Spread]] = {}
    for seed in study.params.seeds:
        training = trials.training(study.variant("estimates", {}, seed))
        training.run()
        scores, self_index = score(training, settings["queries"], seed)
        for name, choice in settings["samplers"].items():
            variant = study.variant(f"estimates.samplers.{name}", choice, seed)
            sampler = build_sampler(variant.get("samplers.${sampler}"))
            for k in settings["counts"]:
                draws = generator(seed, "estimates", name, k, device=scores.device)
                spread = spread_over_draws(scores, self_index, k, sampler, settings["repeats"], draws)
                found.setdefault((name, k), []).append(spread)
    means = {point: Spread(*map(statistics.fmean, zip(*spreads, strict=True))) for point, spreads in found.items()}
    write_table(paths.points, [row(point, means[point], found[point]) for point in found])
    return Results({})


@torch.no_grad()
def score(training: Training, queries: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One view of each of the first images against the bank of all, by the trained encoder and its temperature."""
    method, device = training.method.eval(), training.device
    self_index = torch.arange(min(queries, len(training.images)), device=device)
    views = augment(
        training.images[self_index],
        training.recipe.views,
        method.encoder.view_size,
        generator(seed, "queries", device=device),
    )
    return method.critic(method.encoder(views), method.bank.rows), self_index


def row(point: tuple[str, int], mean: Spread, seeds: list[Spread]) -> dict[str, Number]:
    name, k = point
    deviations = [spread.deviation for spread in seeds]
    return {
        "series": name,
        "k": k,
        "seeds": len(seeds),
        "mean_nats": mean.mean,
        "bias_nats": mean.bias,
        "deviation_nats": mean.deviation,
        "deviation_spread_nats": statistics.stdev(deviations) if len(seeds) > 1 else 0.0,
    }


if __name__ == "__main__":
    run_study(main, PATHS)
