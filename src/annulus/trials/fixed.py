"""Estimates of the information with a trained encoder held fixed: bias and variance over draws of the negatives."""

import statistics
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.compute.rng import generator
from annulus.estimators.spread import Spread
from annulus.files.results import Number
from annulus.training.loop import Training
from annulus.trials.outcomes import std_over_seeds
from annulus.views.recipe import augment


@torch.no_grad()
def score(training: Training, queries: int, seed: int) -> tuple[Float[Tensor, "q n"], Int[Tensor, "q"]]:
    """One view of each of the first images against the bank of all, by the trained encoder and its temperature.

    And each query's own column.
    """
    method, device = training.method.eval(), training.device
    self_index = torch.arange(min(queries, len(training.images)), device=device)
    views = augment(
        training.images[self_index],
        training.recipe.views,
        method.encoder.view_size,
        generator(seed, "queries", device=device),
    )
    return method.critic(method.encoder(views), method.bank.rows), self_index


def row(series: str, k: int, seeds: Sequence[Spread]) -> dict[str, Number]:
    """Means over seeds, and the standard deviation of `std` over seeds."""
    mean = Spread(*map(statistics.fmean, zip(*seeds, strict=True)))
    return {
        "series": series,
        "k": k,
        "seeds": len(seeds),
        "mean_nats": mean.mean,
        "bias_nats": mean.bias,
        "std_nats": mean.std,
        "std_std_over_seeds_nats": std_over_seeds([each.std for each in seeds]),
    }
