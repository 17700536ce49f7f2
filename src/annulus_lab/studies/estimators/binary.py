"""Binary example in closed form and by simulation: X = Y, n = m pairs a batch, the other pairs' y as negatives.

The number t of pairs (1, 1) determines each bound of a batch, so mean and variance are sums over t. The critic is the
paper's: one score for every equal pair, minus infinity for an unequal pair. At p = 1/2 it is the ideal critic. The
paper prints the value at alpha 1. The values at other alphas follow from its Eqs. 4 and 6 in the same way.

Source: Song and Ermon 2020, arXiv:2007.09852, Example 1, Appendix C.1, Eq. 36.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch

from annulus.bounds.alpha import mlcpc_lower_alpha
from annulus.device.rng import generator
from annulus.files.results import Number
from annulus_lab.studies.estimators.bounds import cpc, mlcpc, off_diagonal
from annulus_lab.studies.estimators.estimators_params import BinaryParams
from annulus_lab.studies.estimators.toys import IMPOSSIBLE, binary_pair


class Moments(NamedTuple):
    """Mean in nats and variance of a bound over batches."""

    mean: float
    variance: float


def cpc_of_batch(t: int, m: int, alpha: float) -> float:
    """alpha-CPC of a batch with t pairs (1, 1) and m - t pairs (0, 0), in nats: log 2 for t = 1, m = 2, alpha 1."""
    beta = (m - alpha) / (m - 1)
    return sum(part * math.log(m / (alpha + beta * (part - 1))) for part in (t, m - t) if part) / m


def mlcpc_of_batch(t: int, m: int, alpha: float) -> float:
    """alpha-ML-CPC of a batch with t pairs (1, 1), in nats; 0 for a batch of equal pairs at alpha 1."""
    beta = (m - alpha) / (m - 1)
    equal = sum(part * (part - 1) for part in (t, m - t))  # negatives that score like a positive
    return math.log(m * m / (alpha * m + beta * equal))


def moments(batch_value: Callable[[int, int, float], float], m: int, alpha: float, p: float) -> Moments:
    """Mean and variance over batches of m pairs, each (1, 1) with probability p.

    The mean of CPC at m = 3, alpha 1, p = 1/2 is 0.4774 nats.
    """
    # As logarithms: from 1,030 pairs on a binomial coefficient exceeds floating point.
    log_counts = [math.lgamma(m + 1) - math.lgamma(t + 1) - math.lgamma(m - t + 1) for t in range(m + 1)]
    chances = [math.exp(log + t * math.log(p) + (m - t) * math.log1p(-p)) for t, log in enumerate(log_counts)]
    values = [batch_value(t, m, alpha) for t in range(m + 1)]
    batches = list(zip(chances, values, strict=True))
    mean = sum(chance * value for chance, value in batches)
    return Moments(mean, sum(chance * (value - mean) ** 2 for chance, value in batches))


def batch_rows(m: int, params: BinaryParams, seed: int) -> list[dict[str, Number]]:
    """Rows of both bounds with batches of m pairs, at every alpha and at alpha_{m,m}, the least proven one."""
    toy, draw = binary_pair(params.p), generator(seed, "binary", m)
    alphas: dict[Number, float] = {alpha: alpha for alpha in params.alphas} | {"lowest": mlcpc_lower_alpha(m, m)}
    names = {"CPC": (cpc, cpc_of_batch), "ML-CPC": (mlcpc, mlcpc_of_batch)}
    cells = {
        (name, label): (bound(alpha), moments(batch_value, m, alpha, params.p))
        for name, (bound, batch_value) in names.items()
        for label, alpha in alphas.items()
    }
    values = torch.zeros(params.simulations, len(cells), dtype=torch.float64)
    for simulation in range(params.simulations):
        x, y = toy.sample(m, draw)
        scores = torch.where((x @ y.T).double() > 0, 0.0, IMPOSSIBLE)  # the paper's critic: equal or not
        positive, negatives = scores.diagonal(), off_diagonal(scores)
        for column, (bound, _) in enumerate(cells.values()):
            values[simulation, column] = bound.estimate(positive, negatives)
    simulated = [
        Moments(*moments) for moments in zip(values.mean(dim=0).tolist(), values.var(dim=0).tolist(), strict=True)
    ]
    return [
        {
            "series": f"{name}, lowest proven alpha" if label == "lowest" else f"{name}, alpha {label:g}",
            "bound": name,
            "alpha": label,
            "m": m,
            "value_nats": exact.mean,
            "information_nats": toy.information,
            "bias_nats": exact.mean - toy.information,
            "variance": exact.variance,
            "simulated_nats": drawn.mean,
            "simulated_variance": drawn.variance,
            "simulations": params.simulations,
        }
        for ((name, label), (_, exact)), drawn in zip(cells.items(), simulated, strict=True)
    ]
