"""Information estimates with a frozen encoder: bias and variance over draws of the negatives."""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.rng import generator
from annulus.evals.intervals import over_seeds
from annulus.files.results import Number
from annulus.training.loop import Training
from annulus.views.recipe import augment
from annulus_lab.studies.estimators.spread import Spread
from annulus_lab.studies.shared.information import class_balanced_rows
from annulus_lab.studies.shared.outcomes import by_seed, with_interval


@torch.no_grad()
def score(training: Training, queries: int, seed: int) -> tuple[Float[Tensor, "q n"], Int[Tensor, "q"]]:
    """Scores of one view of each of `queries` images with the whole memory bank, and each query's own column.

    The training gives encoder and temperature.
    """
    method, device = training.method.eval(), training.device
    self_index = class_balanced_rows(training.source.labels, min(queries, len(training.source)))
    views = augment(
        training.images.take(self_index),
        training.settings.views,
        method.encoder.view_size,
        generator(seed, "queries"),
        sizes=training.images.image_sizes(self_index),
    )
    [critic], [bank] = method.critics, method.banks
    return critic(method.encoder(views), bank.rows).table, self_index.to(device)


def row(series: str, k: int, spreads: Mapping[int, Spread]) -> dict[str, Number]:
    """Row of means over seeds with their intervals, and the numbers of each seed."""
    cells: dict[str, Number] = {"series": series, "k": k, "seeds": len(spreads)}
    seeds: dict[str, Number] = {}
    for name, values in zip(Spread._fields, zip(*spreads.values(), strict=True), strict=True):
        cells |= with_interval(f"{name}_nats", over_seeds(values))
        seeds |= by_seed(f"{name}_nats", dict(zip(spreads, values, strict=True)))
    return cells | seeds
