"""Every bound with the ideal critic, without training: each error is the bound's own loss of information."""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.bounds.alpha import mlcpc_lower_alpha
from annulus.device.rng import generator
from annulus.files.results import Number
from annulus.negatives.samplers import Sampler
from annulus_lab.studies.estimators.bounds import (
    INFONCE,
    NWJ,
    BarberAgakov,
    DonskerVaradhan,
    Estimator,
    cpc,
    eqco,
    mlcpc,
    off_diagonal,
)
from annulus_lab.studies.estimators.critics import Ideal
from annulus_lab.studies.estimators.estimators_params import IdealParams
from annulus_lab.studies.estimators.toys import CorrelatedGaussians

Negatives = Callable[[Float[Tensor, "n n"], torch.Generator], Float[Tensor, "n k"]]


class Contestant(NamedTuple):
    """Bound with the source and the number of its negatives."""

    name: str
    bound: Estimator
    negatives: Negatives
    k: int
    shift: float = 0.0  # added to the ideal critic's scores: NWJ is tight for 1 + log ratio


def at_level(nats: float, params: IdealParams, seed: int) -> list[dict[str, Number]]:
    """Rows of all bounds at one level of information, on the same batches."""
    toy = CorrelatedGaussians.with_information(params.dims, nats)
    critic, random = Ideal(toy), generator(seed, "ideal", f"{nats:g}")
    contestants = build_contestants(params)
    values = torch.zeros(params.repeats, len(contestants), dtype=torch.float64)
    for repeat in range(params.repeats):
        scores = critic(*toy.sample(params.pairs, random)).double()
        for place, contestant in enumerate(contestants):
            negatives = contestant.negatives(scores, random) + contestant.shift
            values[repeat, place] = contestant.bound.estimate(scores.diagonal() + contestant.shift, negatives)
    ceilings = [contestant.bound.ceiling(params.pairs, contestant.k) for contestant in contestants]
    means, stds = values.mean(dim=0).tolist(), values.std(dim=0).tolist()
    return [
        {
            "series": contestant.name,
            "information_nats": nats,
            "estimate_nats": mean,
            "error_nats": std / params.repeats**0.5,
            "std_nats": std,
            "ceiling_nats": "" if ceiling == math.inf else ceiling,
            "pairs": params.pairs,
            "repeats": params.repeats,
        }
        for contestant, ceiling, mean, std in zip(contestants, ceilings, means, stds, strict=True)
    ]


def build_contestants(params: IdealParams) -> list[Contestant]:
    exact = BarberAgakov(torch.zeros(params.pairs, dtype=torch.float64))  # the ideal critic's Z is 1 for every y
    others = params.pairs - 1
    softmax: list[Estimator] = [
        INFONCE,
        cpc(params.alpha),
        mlcpc(mlcpc_lower_alpha(params.pairs, params.pairs)),
        eqco(params.eqco_alpha),
        DonskerVaradhan(),
        exact,
    ]
    return [
        *(Contestant(bound.name, bound, _every, others) for bound in softmax),
        Contestant("NWJ", NWJ(), _every, others, shift=1.0),
        Contestant("VINCE, ball", INFONCE, _sampled(params.ball, params.negatives), params.negatives),
        Contestant("CNCE, ring", INFONCE, _sampled(params.ring, params.negatives), params.negatives),
    ]


def _every(scores: Float[Tensor, "n n"], random: torch.Generator) -> Float[Tensor, "n k"]:
    """All other pairs of the batch."""
    return off_diagonal(scores)


def _sampled(sampler: Sampler, k: int) -> Negatives:
    """Negatives from the sampler's set of the batch's other pairs."""

    def draw(scores: Float[Tensor, "n n"], random: torch.Generator) -> Float[Tensor, "n k"]:
        return sampler.draw(scores, torch.arange(len(scores)), k, random).gather(scores)

    return draw
