"""Theorems of the Ring paper with the ideal critic: bias and variance of NCE and CNCE, and a broken bound.

Source: Wu et al. 2020, arXiv:2010.02037, Theorem 3.1, Theorem 3.2; Song and Ermon 2020, arXiv:2007.09852, Section 2.2
(the thousand Gaussians).
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.rng import generator
from annulus.files.results import Number
from annulus.negatives.samplers import Sampler, Uniform
from annulus_lab.studies.estimators.estimators_params import TheoremsParams
from annulus_lab.studies.estimators.spread import Spread, spread_over_draws
from annulus_lab.studies.estimators.toys import CorrelatedGaussians

UNIFORM = Uniform()
MANY = CorrelatedGaussians(1000, 0.2)  # of mlcpc


class Case(NamedTuple):
    """Scores of queries with a memory, and the column of each query's own pair."""

    scores: Float[Tensor, "q n"]
    self_index: Int[Tensor, "q"]


def theorem_metrics(params: TheoremsParams, seed: int) -> dict[str, Number]:
    """Bias and variance of NCE and CNCE, the ring's condition kept and broken, and a case that breaks the bound."""
    toy, ball = CorrelatedGaussians(params.dims, params.rho), params.ball
    dependent = build_case(params, toy, toy, seed)
    independent = build_case(params, CorrelatedGaussians(params.dims, 0.0), toy, seed)

    def spread(name: str, case: Case, sampler: Sampler) -> Spread:
        return spread_over_draws(*case, params.negatives, sampler, params.repeats, generator(seed, "theorems", name))

    nce, cnce = spread("nce", dependent, UNIFORM), spread("cnce", dependent, ball)
    broken = spread("independent", independent, params.lowest)
    return {
        "information_nats": toy.information,
        "ceiling_nats": math.log1p(params.negatives),
        # Bias is against the truth; the variance of one query's estimate over draws, averaged over queries.
        "thm32_bias_nce_nats": toy.information - nce.mean,
        "thm32_bias_cnce_nats": toy.information - cnce.mean,
        "thm32_variance_nce": variance(params, dependent, UNIFORM, "UniformParams", seed),
        "thm32_variance_cnce": variance(params, dependent, ball, "BallParams", seed),
        "a1_independent_estimate_nats": broken.mean,
        "ring_nce_nats": nce.mean,
        "ring_condition_nats": spread("high", dependent, params.high).mean,
        "ring_exceeding_nats": spread("low", dependent, params.low).mean,
        "gauss1000_information_nats": MANY.information,
        "gauss1000_needed_classes": math.ceil(math.exp(MANY.information)),  # log m is the ceiling
        "queries": params.queries,
        "repeats": params.repeats,
    }


def build_case(params: TheoremsParams, drawn: CorrelatedGaussians, critic: CorrelatedGaussians, seed: int) -> Case:
    """Builds a case: pairs of one toy, scored by another toy's ideal critic, with every point's y in the memory."""
    pairs = drawn.sample(params.memory, generator(seed, "theorems", "pairs", round(drawn.rho * 1e6)))
    return Case(critic.log_ratio(pairs.x[: params.queries], pairs.y), torch.arange(params.queries))


def variance(params: TheoremsParams, case: Case, sampler: Sampler, draws_name: str, seed: int) -> float:
    """Variance of a single query's estimate over draws of its negatives, mean over the first 50 queries."""
    draws = generator(seed, "theorems", "variance", draws_name)
    some = range(min(50, len(case.self_index)))
    spreads = [
        spread_over_draws(
            case.scores[i : i + 1], case.self_index[i : i + 1], params.negatives, sampler, params.repeats, draws
        )
        for i in some
    ]
    return sum(spread.std**2 for spread in spreads) / len(some)
