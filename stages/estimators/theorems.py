"""What the theorems say, with the ideal critic: bias and variance of NCE and CNCE, and where the bound breaks."""

import argparse
import math
from typing import NamedTuple

import _path  # noqa: F401  this checkout's src first
import torch

from annulus.compute.rng import generator
from annulus.config.study import OwnStudy
from annulus.estimators.params import TheoremsParams
from annulus.estimators.spread import Spread, spread_over_draws
from annulus.estimators.toys import CorrelatedGaussians
from annulus.files.results import Number
from annulus.negatives.build import build_sampler
from annulus.negatives.samplers import Ring, Sampler
from annulus.pipeline.stage import Results, run_study

READS: list[str] = []
OWN = ["scale", "seeds", "scales.${scale}.theorems", "theorems"]
PATHS = ["metrics"]

UNIFORM = Ring(0.0, 1.0)
MANY = CorrelatedGaussians(1000, 0.2)  # mlcpc Section 2.2


class Case(NamedTuple):
    """Scores of queries with a memory, and the columns of their own pairs."""

    scores: torch.Tensor
    self_index: torch.Tensor


def main(study: OwnStudy, paths: argparse.Namespace) -> Results:
    params, seed = study.section("theorems", TheoremsParams), study.params.seeds[0]
    toy, ball = CorrelatedGaussians(params.dims, params.rho), build_sampler(params.ball)
    dependent = case(params, toy, toy, seed)
    independent = case(params, CorrelatedGaussians(params.dims, 0.0), toy, seed)

    def spread(name: str, of: Case, sampler: Sampler) -> Spread:
        return spread_over_draws(*of, params.negatives, sampler, params.repeats, generator(seed, "theorems", name))

    nce, cnce = spread("nce", dependent, UNIFORM), spread("cnce", dependent, ball)
    broken = spread("independent", independent, build_sampler(params.lowest))
    numbers: dict[str, Number] = {
        "information_nats": toy.information,
        "ceiling_nats": math.log1p(params.negatives),
        # Bias is against the truth; the variance of one query's estimate over draws, averaged over queries.
        "thm32_bias_nce_nats": toy.information - nce.mean,
        "thm32_bias_cnce_nats": toy.information - cnce.mean,
        "thm32_variance_nce": variance(params, dependent, UNIFORM, "UniformParams", seed),
        "thm32_variance_cnce": variance(params, dependent, ball, "BallParams", seed),
        "a1_independent_estimate_nats": broken.mean,
        "ring_nce_nats": nce.mean,
        "ring_condition_nats": spread("high", dependent, build_sampler(params.high)).mean,
        "ring_exceeding_nats": spread("low", dependent, build_sampler(params.low)).mean,
        "gauss1000_information_nats": MANY.information,
        "gauss1000_needed_classes": math.ceil(math.exp(MANY.information)),  # log m is the ceiling
    }
    return Results(numbers | {"queries": params.queries, "repeats": params.repeats, "scale": study.params.scale})


def case(params: TheoremsParams, drawn: CorrelatedGaussians, critic: CorrelatedGaussians, seed: int) -> Case:
    """Pairs of one toy scored by another one's ideal critic; every point's y is in the memory."""
    pairs = drawn.sample(params.memory, generator(seed, "theorems", "pairs", round(drawn.rho * 1e6)))
    return Case(critic.log_ratio(pairs.x[: params.queries], pairs.y), torch.arange(params.queries))


def variance(params: TheoremsParams, of: Case, sampler: Sampler, draws_name: str, seed: int) -> float:
    """Of a single query's estimate over draws of its negatives, mean over queries."""
    draws = generator(seed, "theorems", "variance", draws_name)
    some = range(min(50, len(of.self_index)))
    spreads = [
        spread_over_draws(
            of.scores[i : i + 1], of.self_index[i : i + 1], params.negatives, sampler, params.repeats, draws
        )
        for i in some
    ]
    return sum(each.deviation**2 for each in spreads) / len(some)


if __name__ == "__main__":
    run_study(main, PATHS, of_root=False)
