"""Estimates of the information with a trained encoder held fixed: bias and variance over draws of the negatives."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.rng import generator
from annulus.evals.intervals import over_seeds
from annulus.files.results import Number
from annulus.studies.estimators.spread import Spread
from annulus.studies.information import of_all_classes
from annulus.studies.outcomes import with_interval
from annulus.training.loop import Training
from annulus.views.recipe import augment


@torch.no_grad()
def score(training: Training, queries: int, seed: int) -> tuple[Float[Tensor, "q n"], Int[Tensor, "q"]]:
    """One view of each of some images against the bank of all, by the trained encoder and its temperature.

    And each query's own column.
    """
    method, device = training.method.eval(), training.device
    self_index = of_all_classes(training.source.labels, min(queries, len(training.source)))
    views = augment(
        training.images.take(self_index),
        training.settings.views,
        method.encoder.view_size,
        generator(seed, "queries"),
        sizes=training.images.sizes_of(self_index),
    )
    [critic], [bank] = method.critics, method.banks
    return critic(method.encoder(views), bank.rows).table, self_index.to(device)


def row(series: str, k: int, seeds: Sequence[Spread]) -> dict[str, Number]:
    """Means over seeds with their intervals."""
    cells: dict[str, Number] = {"series": series, "k": k, "seeds": len(seeds)}
    for name, values in zip(Spread._fields, zip(*seeds, strict=True), strict=True):
        cells |= with_interval(f"{name}_nats", over_seeds(values))
    return cells
