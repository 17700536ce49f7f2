"""Bias and spread of the estimates against loops and against the Ring paper's Theorem 3.2."""

import itertools
import statistics

import pytest
import torch
from plain_objectives import plain_estimate, ranked_others

from annulus.negatives.samplers import Ball, Ring, Uniform
from annulus_lab.studies.estimators.spread import estimate, spread_over_draws

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

SCORES = [[2.0, 0.5, -1.0, 0.25], [0.0, 1.0, 0.75, -0.5], [0.3, 0.1, 0.2, 1.5]]
OWN = [0, 1, 3]
UNIFORM = Uniform()
QUERIES, ROWS = 16, 1001


@pytest.fixture(scope="module")
def encoder():
    """Scores like a trained encoder's: a query is close to its own row; the temperature is 0.3."""
    random = torch.Generator().manual_seed(3)
    rows = torch.nn.functional.normalize(torch.randn(ROWS, 8, generator=random), dim=1)
    noise = 0.2 * torch.randn(QUERIES, 8, generator=random)
    queries = torch.nn.functional.normalize(rows[:QUERIES] + noise, dim=1)
    return queries @ rows.T / 0.3, torch.arange(QUERIES)


def seeded(seed: int = 1) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain(negatives: list[list[int]]) -> float:
    return plain_estimate(torch.tensor(SCORES, dtype=torch.float64), OWN, negatives)


OTHERS = [ranked_others(torch.tensor(scores), [own]) for scores, own in zip(SCORES, OWN, strict=True)]


@pytest.mark.parametrize(
    ("sampler", "first", "last"),
    [(UNIFORM, 0, 3), (Ball(0.67), 0, 2), (Ring(inner=0.34, outer=1.0), 1, 3)],
)
def test_with_the_whole_set_the_estimate_is_its_formula(sampler, first, last):
    actual = estimate(torch.tensor(SCORES), torch.tensor(OWN), "all", sampler, seeded())
    assert actual == pytest.approx(plain([others[first:last] for others in OTHERS]), abs=1e-6)


def test_mean_bias_and_deviation_are_those_of_every_draw():
    """k = 1: a query draws one of three others, so the estimate has 27 equally likely values."""
    values = [plain([[row] for row in rows]) for rows in itertools.product(*OTHERS)]
    spread = spread_over_draws(torch.tensor(SCORES), torch.tensor(OWN), 1, UNIFORM, 1000, seeded())
    deviation = statistics.pstdev(values)
    assert spread.mean == pytest.approx(statistics.fmean(values), abs=4 * deviation / 1000**0.5)
    assert spread.std == pytest.approx(deviation, rel=0.06)
    assert spread.bias == pytest.approx(spread.mean - plain(OTHERS), abs=1e-6)


def test_cnce_is_below_nce_and_varies_less_and_nce_less_with_more_negatives(encoder):
    """Source: ring Theorem 3.2. 50 draws give a ratio of deviations to within 14 %; here it is below two thirds."""
    few, nce, every = (spread_over_draws(*encoder, k, UNIFORM, 50, seeded()) for k in (4, 64, 1000))
    for sampler in (Ball(0.1), Ring(inner=0.01, outer=0.1)):
        cnce = spread_over_draws(*encoder, 64, sampler, 50, seeded())
        assert cnce.mean < nce.mean - 5 * nce.std / 50**0.5
        assert cnce.bias < 0
        assert cnce.mean - cnce.bias == pytest.approx(nce.mean - nce.bias), "both against all negatives"
        assert cnce.std < 0.67 * nce.std
    assert abs(few.bias) > abs(nce.bias) + 3 * (few.std + nce.std) / 50**0.5
    assert nce.std > 1.2 * every.std
    assert abs(every.bias) < 0.02
