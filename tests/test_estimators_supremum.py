"""Supremum of CNCE against plain water-filling, and against critics that draw their negatives."""

import math
from collections.abc import Callable

import pytest
import torch

from annulus.negatives.by_rank import ball
from annulus_lab.studies.estimators.bounds import INFONCE
from annulus_lab.studies.estimators.supremum import supremum
from annulus_lab.studies.estimators.toys import CorrelatedGaussians

pytestmark = pytest.mark.usefixtures("untouched_global_randomness", "in_float64")


def quantiles(points: int) -> torch.Tensor:
    """Standard normal points, each of equal mass."""
    return torch.special.ndtri((torch.arange(points).double() + 0.5) / points)[:, None]


def fill_to_level(rho: float, share: float, x: float) -> tuple[float, float]:
    """Divergence and level for one query: the closest points' ratios, clamped from below at the level, average 1."""
    ratios = CorrelatedGaussians(1, rho).log_ratio(torch.tensor([[x]]), quantiles(5000))[0].exp()
    masses = share * ratios.sort(descending=True).values[: round(share * 5000)]
    low, high = 0.0, 1.0
    for _ in range(60):
        level = (low + high) / 2
        low, high = (level, high) if masses.clamp_min(level).mean() < 1 else (low, level)
    filled = masses.clamp_min(level)
    return (filled * filled.log()).mean().item(), level


@pytest.mark.parametrize(("rho", "share"), [(0.2, 0.9), (0.2, 0.75), (0.8, 0.5)])
def test_it_is_the_divergence_of_the_closest_share_filled_up_to_a_level(rho, share):
    queries = [-4.95 + 0.1 * place for place in range(100)]
    density = [math.exp(-x * x / 2) for x in queries]
    nats = [fill_to_level(rho, share, x)[0] for x in queries]
    expected = sum(p * value for p, value in zip(density, nats, strict=True)) / sum(density)
    assert supremum(rho, share) == pytest.approx(expected, rel=0.01)


def test_the_best_critic_comes_close_with_drawn_negatives_and_no_other_one_does():
    """Mean over some x, weighted by their density; positives are evenly spaced quantiles, negatives are drawn."""
    rho, share, k, positives = 0.8, 0.5, 500, 60
    toy, bank, x = CorrelatedGaussians(1, rho), quantiles(1000), torch.linspace(-4, 4, 33)
    density = (-x.square() / 2).exp() / (-x.square() / 2).exp().sum()
    own = [toy.log_ratio(q.view(1, 1), rho * q + math.sqrt(1 - rho**2) * quantiles(positives)).T for q in x]
    ratios = [
        torch.cat([o, toy.log_ratio(q.view(1, 1), bank).expand(positives, -1)], 1) for o, q in zip(own, x, strict=True)
    ]
    levels = [math.log(fill_to_level(rho, share, q)[1] / share) for q in x.tolist()]

    def fraction(critic: Callable[[torch.Tensor, float], torch.Tensor]) -> float:
        draws, index, estimates = torch.Generator().manual_seed(0), torch.zeros(positives, dtype=torch.long), []
        for scores in map(critic, ratios, levels):
            negatives = ball(scores, index, share, k, draws).gather(scores)
            estimates.append(INFONCE.estimate(scores[:, 0], negatives))
        return (torch.stack(estimates) @ density).item() / supremum(rho, share)

    assert 0.985 < fraction(lambda ratio, level: ratio.clamp_min(level)) < 1
    for factor, shift in ((1.0, 0.5), (1.0, -0.5), (0.8, 0.0), (1.2, 0.0), (1.0, -torch.inf)):
        assert fraction(lambda ratio, level, a=factor, b=shift: (a * ratio).clamp_min(level + b)) < 0.975


def test_it_is_the_information_for_all_points_and_falls_with_the_share():
    """The last numbers are the limits for the estimates in Table 3 of mutualinfo and Table 5 of ring."""
    information = CorrelatedGaussians(1, 0.2).information
    assert supremum(0.2, 1.0) == information
    assert supremum(0.2, 1 - 1e-6) == pytest.approx(information, rel=1e-4)
    suprema = [supremum(0.2, share) for share in (0.9, 0.75, 0.5, 0.25, 0.1, 0.05)]
    assert suprema == pytest.approx([7.512e-3, 2.175e-3, 2.013e-4, 4.708e-6, 3.90e-8, 1.09e-9], rel=2e-3)
    assert supremum(0.0, 0.5) == 0
