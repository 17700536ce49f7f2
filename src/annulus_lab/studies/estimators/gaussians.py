"""InfoNCE and EqCo on correlated Gaussians, each with a critic that is trained on its own bound.

Source: Zhu et al. 2020, arXiv:2010.01929, Table 9.
"""

import statistics
from collections.abc import Mapping
from typing import Any

import torch

from annulus.device.rng import derive, first_weights, generator
from annulus.files.results import Number
from annulus.optim.torch_optimizers import Adam
from annulus_lab.studies.estimators.bounds import INFONCE, eqco, off_diagonal
from annulus_lab.studies.estimators.critics import Separable
from annulus_lab.studies.estimators.ensembles import Ensemble
from annulus_lab.studies.estimators.estimators_params import GaussiansParams
from annulus_lab.studies.estimators.spread import std_over_seeds
from annulus_lab.studies.estimators.toys import CorrelatedGaussians
from annulus_lab.studies.shared.outcomes import by_seed


def estimates(params: GaussiansParams, key: tuple[int, int]) -> Mapping[str, Any]:
    """Trains a critic for each bound and level of information, for (pairs a batch, seed); returns estimates in nats.

    All critics train as one. The critics of one level see the same pairs, and all start from the same weights.
    """
    pairs, seed = key
    toys = [CorrelatedGaussians.with_information(params.dims, nats) for nats in params.information]
    bounds = {"InfoNCE": INFONCE, "EqCo": eqco(params.eqco_alpha)}
    jobs = [(bound, level) for bound in bounds.values() for level in range(len(toys))]
    with first_weights(derive(seed, "weights")):
        critic = Separable(params.dims, params.hidden, params.layers, params.outputs, params.temperature)
    critics = Ensemble([critic] * len(jobs))
    optimizer = Adam(critics.parameters(), params.learning_rate, fused=True)
    draws = [generator(seed, "pairs", level) for level in range(len(toys))]

    def values() -> torch.Tensor:
        batch = [toy.sample(pairs, draw) for toy, draw in zip(toys, draws, strict=True)]
        x, y = (torch.stack([batch[level][side] for _, level in jobs]) for side in (0, 1))
        scores = critics(x, y)
        return torch.stack(
            [
                bound.estimate(table.diagonal(), off_diagonal(table))
                for (bound, _), table in zip(jobs, scores, strict=True)
            ]
        )

    for _ in range(params.steps):
        optimizer.zero_grad()
        (-values().sum()).backward()
        optimizer.step()
    with torch.no_grad():
        means = torch.stack([values() for _ in range(params.evaluations)]).double().mean(dim=0)
    return {"nats": dict(zip(bounds, means.view(len(bounds), -1).tolist(), strict=True))}


def row(
    params: GaussiansParams, method: str, nats: float, pairs: int, estimates: Mapping[int, float]
) -> dict[str, Number]:
    bound = INFONCE if method == "InfoNCE" else eqco(params.eqco_alpha)
    return {
        "method": method,
        "information_nats": nats,
        "pairs": pairs,
        "estimate_nats": statistics.fmean(estimates.values()),
        "std_over_seeds_nats": std_over_seeds([*estimates.values()]),
        "ceiling_nats": bound.ceiling(pairs, pairs - 1),
        **by_seed("estimate_nats", estimates),
    }
