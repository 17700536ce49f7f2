"""CPC and ML-CPC at several alphas, each with its own critic, under information that rises in steps.

Source: Song and Ermon 2020, arXiv:2007.09852, Figure 3.
"""

import statistics
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from annulus.device.device import pick_device
from annulus.device.rng import derive, first_weights, generator
from annulus.files.results import Number
from annulus.optim.torch_optimizers import Adam
from annulus_lab.studies.estimators.bounds import cpc, mlcpc, off_diagonal
from annulus_lab.studies.estimators.critics import Joint, Separable
from annulus_lab.studies.estimators.ensembles import Ensemble
from annulus_lab.studies.estimators.estimators_params import StaircaseParams
from annulus_lab.studies.estimators.spread import std_over_seeds
from annulus_lab.studies.estimators.toys import Staircase
from annulus_lab.studies.shared.outcomes import by_seed

BOUNDS = {"CPC": cpc, "ML-CPC": mlcpc}


def warnings_for(params: StaircaseParams) -> list[str]:
    """Warnings of both bounds at the params' alphas, one sentence each."""
    n, k = params.pairs, params.pairs - 1
    warnings = [bound(alpha).warning(n, k) for bound in BOUNDS.values() for alpha in params.alphas]
    return [warning for warning in warnings if warning is not None]


def follow(params: StaircaseParams, key: tuple[str, int]) -> Mapping[str, Any]:
    """Trains a critic for each alpha of (bound, seed), all on the same pairs; returns nats (alphas, steps)."""
    name, seed = key
    device = pick_device()
    toy = Staircase(params.dims, params.information, params.steps_per_level)
    bounds = [BOUNDS[name](alpha) for alpha in params.alphas]
    with first_weights(derive(seed, "weights")):
        critic = _critic(params)
    critics = Ensemble([critic] * len(bounds)).to(device)
    optimizer = Adam(critics.parameters(), params.learning_rate, fused=True)
    draw = generator(seed, "pairs", device=device)
    estimates = torch.zeros(toy.steps, len(bounds), device=device)
    for step in range(toy.steps):
        scores = critics(*toy.at(step).sample(params.pairs, draw), shared=True)
        values = torch.stack(
            [bound.estimate(table.diagonal(), off_diagonal(table)) for bound, table in zip(bounds, scores, strict=True)]
        )
        optimizer.zero_grad()
        (-values.sum()).backward()
        optimizer.step()
        estimates[step] = values.detach()
    return {"nats": estimates.T.cpu().contiguous()}


def _critic(params: StaircaseParams) -> nn.Module:
    if params.critic == "joint":
        return Joint(params.dims, params.hidden, params.layers)
    return Separable(params.dims, params.hidden, params.layers, params.outputs)


def curve(
    params: StaircaseParams, name: str, alpha: float, nats: Mapping[int, Float[Tensor, "steps"]]
) -> list[dict[str, Number]]:
    """Points of the figure: each is the mean over seeds and over one stretch of steps."""
    width = params.steps_per_level // params.points
    means = torch.stack([*nats.values()]).mean(dim=0).view(-1, width).mean(dim=1).tolist()
    return [
        {
            "series": f"{name}, alpha {alpha:g}",
            "bound": name,
            "alpha": alpha,
            "iteration": (point + 1) * width,
            "estimate_nats": mean,
            "information_nats": params.information[point // params.points],
        }
        for point, mean in enumerate(means)
    ]


def ends(
    params: StaircaseParams, name: str, alpha: float, nats: Mapping[int, Float[Tensor, "steps"]]
) -> list[dict[str, Number]]:
    """Rows of each level's last quarter: mean and standard deviation over steps, each with its spread over seeds."""
    ceiling = BOUNDS[name](alpha).ceiling(params.pairs, params.pairs - 1)
    rows = []
    for place, level in enumerate(params.information):
        its = {seed: steps.view(len(params.information), -1)[place].tolist() for seed, steps in nats.items()}
        last = {seed: steps[-(len(steps) // 4) :] for seed, steps in its.items()}
        means, stds = (
            {seed: of(steps) for seed, steps in last.items()} for of in (statistics.fmean, statistics.pstdev)
        )
        rows.append(
            {
                "series": f"{name}, alpha {alpha:g}",
                "bound": name,
                "alpha": alpha,
                "information_nats": level,
                **_over_seeds("estimate", means),
                **_over_seeds("std", stds),
                "ceiling_nats": ceiling,
                "iterations": params.steps_per_level,
                **by_seed("estimate_nats", means),
                **by_seed("std_nats", stds),
            }
        )
    return rows


def _over_seeds(name: str, nats: Mapping[int, float]) -> dict[str, Number]:
    return {
        f"{name}_nats": statistics.fmean(nats.values()),
        f"{name}_std_over_seeds_nats": std_over_seeds([*nats.values()]),
    }
