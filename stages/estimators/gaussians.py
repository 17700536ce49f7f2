"""InfoNCE and EqCo on correlated Gaussians: estimates after training, beside the truth."""

import argparse
import logging
import statistics
from collections.abc import Mapping
from typing import Any

import _path  # noqa: F401  this checkout's src first
import torch

from annulus.compute.rng import derive, generator
from annulus.compute.workers import Pieces
from annulus.config.study import OwnStudy
from annulus.errors import InputError
from annulus.estimators.bounds import EqCo, InfoNCE, off_diagonal
from annulus.estimators.critics import Separable
from annulus.estimators.ensembles import Ensemble, seeded
from annulus.estimators.params import GaussiansParams
from annulus.estimators.toys import CorrelatedGaussians
from annulus.files.results import Number, write_table
from annulus.pipeline.stage import Results, run_study

READS: list[str] = []
OWN = ["scale", "seeds", "scales.${scale}.gaussians", "gaussians"]
PATHS = ["points"]

log = logging.getLogger("annulus")


def main(study: OwnStudy, paths: argparse.Namespace) -> Results:
    params = study.section("gaussians", GaussiansParams)
    if params.first_seeds > len(study.params.seeds):
        raise InputError(
            f"{study.path}: gaussians.first_seeds: {params.first_seeds} of {len(study.params.seeds)} seeds; "
            "name more seeds, or take fewer of them"
        )
    seeds = study.params.seeds[: params.first_seeds]
    for pairs in params.pairs:
        caution = EqCo(params.eqco_alpha).warning(pairs, pairs - 1)
        if caution is not None:
            log.warning("%s", caution)
    pieces = Pieces("gaussians", params, estimates)
    keys = sorted(((pairs, seed) for pairs in params.pairs for seed in seeds), reverse=True)  # the longest first
    found = dict(zip(keys, pieces.run(keys), strict=True))
    rows = [
        row(params, method, nats, pairs, [found[pairs, seed]["nats"][method][place] for seed in seeds])
        for place, nats in enumerate(params.information)
        for method in ("InfoNCE", "EqCo")
        for pairs in params.pairs
    ]
    write_table(paths.points, [each | {"seeds": len(seeds), "scale": study.params.scale} for each in rows])
    return Results({}, written=pieces.done)


def estimates(params: GaussiansParams, key: tuple[int, int]) -> Mapping[str, Any]:
    """Both bounds at every level of information, for (pairs a batch, seed), each by a critic trained on it.

    All critics are trained as one; those of one level see the same pairs and start from the same weights.
    """
    pairs, seed = key
    toys = [CorrelatedGaussians.with_information(params.dims, nats) for nats in params.information]
    bounds = {"InfoNCE": InfoNCE(), "EqCo": EqCo(params.eqco_alpha)}
    jobs = [(bound, level) for bound in bounds.values() for level in range(len(toys))]
    critic = seeded(
        lambda: Separable(params.dims, params.hidden, params.layers, params.outputs, params.temperature),
        derive(seed, "weights"),
    )
    critics = Ensemble([critic] * len(jobs))
    optimizer = torch.optim.Adam(critics.parameters(), params.learning_rate, fused=True)
    draws = [generator(seed, "pairs", level) for level in range(len(toys))]

    def values() -> torch.Tensor:
        batch = [toy.sample(pairs, draw) for toy, draw in zip(toys, draws, strict=True)]
        x, y = (torch.stack([batch[level][side] for _, level in jobs]) for side in (0, 1))
        scores = critics(x, y)
        return torch.stack(
            [bound.estimate(each.diagonal(), off_diagonal(each)) for (bound, _), each in zip(jobs, scores, strict=True)]
        )

    for _ in range(params.steps):
        optimizer.zero_grad()
        (-values().sum()).backward()
        optimizer.step()
    with torch.no_grad():
        means = torch.stack([values() for _ in range(params.evaluations)]).double().mean(dim=0)
    return {"nats": dict(zip(bounds, means.view(len(bounds), -1).tolist(), strict=True))}


def row(params: GaussiansParams, method: str, nats: float, pairs: int, over_seeds: list[float]) -> dict[str, Number]:
    bound = InfoNCE() if method == "InfoNCE" else EqCo(params.eqco_alpha)
    return {
        "method": method,
        "information_nats": nats,
        "pairs": pairs,
        "estimate_nats": statistics.fmean(over_seeds),
        "spread_nats": statistics.stdev(over_seeds) if len(over_seeds) > 1 else 0.0,
        "ceiling_nats": bound.ceiling(pairs, pairs - 1),
    }


if __name__ == "__main__":
    run_study(main, PATHS, of_root=False)
