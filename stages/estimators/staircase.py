"""CPC and ML-CPC at several alphas following information that rises in steps: their curves, and each level's end."""

import argparse
import logging
import statistics
from collections.abc import Mapping
from typing import Any

import _path  # noqa: F401  this checkout's src first
import torch
from torch import nn

from annulus.compute.device import pick_device
from annulus.compute.rng import derive, generator
from annulus.compute.workers import Pieces
from annulus.config.study import OwnStudy
from annulus.estimators.bounds import CPC, MLCPC, off_diagonal
from annulus.estimators.critics import Joint, Separable
from annulus.estimators.ensembles import Ensemble, seeded
from annulus.estimators.params import StaircaseParams
from annulus.estimators.toys import Staircase
from annulus.files.results import Number, write_table
from annulus.pipeline.stage import Results, run_study

READS: list[str] = []
OWN = ["scale", "seeds", "scales.${scale}.staircases.${item.staircase}", "staircases.${item.staircase}"]
PATHS = ["curves", "levels"]
BOUNDS = {"CPC": CPC, "ML-CPC": MLCPC}

log = logging.getLogger("annulus")


def main(study: OwnStudy, arguments: argparse.Namespace) -> Results:
    params, seed = study.section(f"staircases.{arguments.staircase}", StaircaseParams), study.params.seeds[0]
    for caution in cautions(params):
        log.warning("%s", caution)
    pieces = Pieces("staircase", params, follow)
    keys = [(name, seed) for name in BOUNDS]
    runs = {
        (name, alpha): result["nats"][place]
        for (name, _), result in zip(keys, pieces.run(keys), strict=True)
        for place, alpha in enumerate(params.alphas)
    }
    write_table(arguments.curves, [row for key, nats in runs.items() for row in curve(params, *key, nats)])
    levels = [row for key, nats in runs.items() for row in ends(params, *key, nats)]
    write_table(arguments.levels, [row | {"seeds": 1, "scale": study.params.scale} for row in levels])
    return Results({}, written=pieces.done)


def cautions(params: StaircaseParams) -> list[str]:
    """What a bound loses at an alpha, in a sentence each."""
    n, k = params.pairs, params.pairs - 1
    found = [bound(alpha).warning(n, k) for bound in BOUNDS.values() for alpha in params.alphas]
    return [caution for caution in found if caution is not None]


def follow(params: StaircaseParams, key: tuple[str, int]) -> Mapping[str, Any]:
    """The estimates (alphas, steps) of (bound, seed), in nats: a critic for each alpha, all on the same pairs."""
    name, seed = key
    device = pick_device()
    toy = Staircase(params.dims, params.information, params.steps_per_level)
    bounds = [BOUNDS[name](alpha) for alpha in params.alphas]
    critic = seeded(lambda: critic_of(params), derive(seed, "weights"))
    critics = Ensemble([critic] * len(bounds)).to(device)
    optimizer = torch.optim.Adam(critics.parameters(), params.learning_rate, betas=(0.9, 0.999), fused=True)
    draw = generator(seed, "pairs", device=device)
    estimates = torch.zeros(toy.steps, len(bounds), device=device)
    for step in range(toy.steps):
        scores = critics(*toy.at(step).sample(params.pairs, draw), shared=True)
        values = torch.stack(
            [bound.estimate(each.diagonal(), off_diagonal(each)) for bound, each in zip(bounds, scores, strict=True)]
        )
        optimizer.zero_grad()
        (-values.sum()).backward()
        optimizer.step()
        estimates[step] = values.detach()
    return {"nats": estimates.T.cpu().contiguous()}


def critic_of(params: StaircaseParams) -> nn.Module:
    if params.critic == "joint":
        return Joint(params.dims, params.hidden, params.layers)
    return Separable(params.dims, params.hidden, params.layers, params.outputs)


def curve(params: StaircaseParams, name: str, alpha: float, nats: torch.Tensor) -> list[dict[str, Number]]:
    """Points of the figure, each the mean over as many steps."""
    width = params.steps_per_level // params.points
    means = nats.view(-1, width).mean(dim=1).tolist()
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


def ends(params: StaircaseParams, name: str, alpha: float, nats: torch.Tensor) -> list[dict[str, Number]]:
    """Mean and deviation between steps of each level's last quarter."""
    ceiling = BOUNDS[name](alpha).ceiling(params.pairs, params.pairs - 1)
    rows = []
    for level, its in zip(params.information, nats.view(len(params.information), -1).tolist(), strict=True):
        last = its[-(len(its) // 4) :]
        rows.append(
            {
                "series": f"{name}, alpha {alpha:g}",
                "bound": name,
                "alpha": alpha,
                "information_nats": level,
                "estimate_nats": statistics.fmean(last),
                "deviation_nats": statistics.pstdev(last),
                "ceiling_nats": ceiling,
                "iterations": len(its),
            }
        )
    return rows


if __name__ == "__main__":
    run_study(main, PATHS, items=["staircase"], of_root=False)
