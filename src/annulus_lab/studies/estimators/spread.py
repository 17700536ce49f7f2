"""Bias and spread of an information estimate over draws with a fixed encoder, and its spread over seeds."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.bounds.bound import present
from annulus.bounds.infonce import infonce, infonce_ceiling
from annulus.negatives.by_rank import Count
from annulus.negatives.samplers import Sampler, Uniform


def std_over_seeds(nats: Sequence[float]) -> float | str:
    """Standard deviation of a sample of seeds; blank for a single seed."""
    return statistics.stdev(nats) if len(nats) > 1 else ""


class Spread(NamedTuple):
    """Mean and standard deviation of an estimate over repeated draws, in nats."""

    mean: float
    bias: float  # against the estimate with the whole memory as negatives
    std: float  # over draws


def estimate(
    scores: Float[Tensor, "b n"],
    self_index: Int[Tensor, "b"],
    k: Count,
    sampler: Sampler,
    generator: torch.Generator,
) -> float:
    """log(1 + k) minus InfoNCE, in nats, with k negatives of the sampler's own set; k may be `all`."""
    drawn = sampler.draw(scores, self_index, k, generator).gather(scores)
    positive = scores.gather(1, self_index[:, None])
    return (infonce_ceiling(present(positive), present(drawn)) - infonce(positive, drawn)).item()


def spread_over_draws(
    scores: Float[Tensor, "b n"],
    self_index: Int[Tensor, "b"],
    k: int,
    sampler: Sampler,
    repeats: int,
    generator: torch.Generator,
) -> Spread:
    """Mean, bias and standard deviation of `estimate` over repeated draws of the negatives.

    Uniform negatives give NCE. Negatives from a ball or a ring give CNCE, which is lower and varies less.

    Source: Wu et al. 2020, arXiv:2010.02037, Theorem 3.2.
    """
    reference = estimate(scores, self_index, "all", Uniform(), generator)
    values = torch.tensor(
        [estimate(scores, self_index, k, sampler, generator) for _ in range(repeats)], dtype=torch.float64
    )
    return Spread(values.mean().item(), values.mean().item() - reference, values.std().item())
