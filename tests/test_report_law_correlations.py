"""Rank correlations of the law's points: partial ones by residuals, and intervals over points."""

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from annulus_lab.report.figures.law_correlations import Correlation, Point, partial, separation, spearman


def residuals(values, fixed):
    """Returns the residuals of the ranks from a straight line over the ranks of `fixed`."""
    x, y = rankdata(fixed), rankdata(values)
    slope, offset = np.polyfit(x, y, 1)
    return y - slope * x - offset


def test_a_partial_correlation_is_that_of_the_residuals():
    gain, weight, temperature = np.random.default_rng(1).normal(size=(3, 40))
    gain += temperature
    expected = pearsonr(residuals(gain, temperature), residuals(weight, temperature)).statistic
    assert partial(gain, weight, temperature) == pytest.approx(expected, abs=1e-12)


def test_what_moves_the_gain_is_told_from_what_moves_with_it():
    random = np.random.default_rng(2)
    temperature = random.uniform(size=60)
    weight = -temperature + random.normal(scale=0.3, size=60)
    by_temperature = separation([*map(Point, temperature + random.normal(scale=0.1, size=60), weight, temperature)])
    by_weight = separation([*map(Point, -weight + random.normal(scale=0.1, size=60), weight, temperature)])
    assert by_temperature.gain_with_weight.value < -0.5
    assert by_temperature.gain_with_temperature.low > 0.8
    assert by_temperature.weight_with_temperature.high < -0.5
    assert by_temperature.temperature_at_one_weight.low > 0.5
    assert abs(by_temperature.weight_at_one_temperature.value) < 0.3
    assert by_weight.weight_at_one_temperature.high < -0.5
    assert by_weight.temperature_at_one_weight.low < 0.3


def test_a_correlation_of_ranks_is_scipy_s_with_ties_too():
    first, second = np.random.default_rng(4).integers(6, size=(2, 30))
    assert spearman(first, second) == pytest.approx(spearmanr(first, second).statistic, abs=1e-12)


def test_at_one_temperature_the_gain_follows_the_weight_or_does_not():
    random = np.random.default_rng(5)
    weights = random.uniform(size=20)
    points = [Point(-weight + random.normal(scale=0.1), weight, 0.2) for weight in weights]
    follows, *others = separation(points)
    assert others == [None] * 4, "of a single temperature"
    assert -1 <= follows.low < follows.value < follows.high < -0.5
    differs = separation([Point(random.normal(), weight, 0.2) for weight in weights]).gain_with_weight
    assert differs.low < 0 < differs.high


def test_the_interval_holds_the_value_and_stands_beside_it():
    random = np.random.default_rng(3)
    for one in separation([Point(*values) for values in random.normal(size=(20, 3))]):
        assert -1 <= one.low < one.value < one.high <= 1
    assert str(Correlation(-0.5, -0.75, 0.125)) == "-0.50 (-0.75 to +0.12)"


def test_an_interval_over_points_is_a_95_percent_one():
    """Without a correlation its half is about 1.96 deviations of 1 / sqrt(n - 1)."""
    points = [Point(*values, 0.2) for values in np.random.default_rng(6).normal(size=(200, 2))]
    one = separation(points).gain_with_weight
    assert one.high - one.low == pytest.approx(2 * 1.96 / 199**0.5, rel=0.08)


def test_five_points_have_a_correlation_and_four_have_none():
    points = [Point(gain, weight, 0.2) for gain, weight in enumerate((1, 0, 2, 4, 3))]
    assert separation(points).gain_with_weight.value == pytest.approx(0.8)
    with pytest.raises(ValueError, match="has 4 points that differ too little"):
        separation(points[:4])


@pytest.mark.parametrize("points", [[Point(1, 2, 3)], [Point(gain, 50, 0.2) for gain in range(9)]])
def test_points_that_cannot_be_told_apart_are_refused(points):
    with pytest.raises(ValueError, match="points that differ too little"):
        separation(points)
    with pytest.raises(ValueError, match="points that differ too little"):
        separation([point._replace(gain=1) for point in points])
