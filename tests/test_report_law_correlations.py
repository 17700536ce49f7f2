"""Rank correlations of the law's points: partial ones by residuals, and intervals over points."""

import re

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from annulus_lab.report.figures.law_correlations import Point, of_gain_with, partial, separation, spearman


def residuals(values, fixed):
    """Ranks without what a straight line over the ranks of `fixed` says of them."""
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
    assert by_temperature.gain_with_weight < -0.5
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
    follows = of_gain_with("weight_percent", points)
    assert -1 <= follows.low < follows.value < follows.high < -0.5
    differs = of_gain_with("weight_percent", [Point(random.normal(), weight, 0.2) for weight in weights])
    assert differs.low < 0 < differs.high


def test_the_interval_holds_the_value_and_the_sentence_has_all_of_it():
    random = np.random.default_rng(3)
    found = separation([Point(*values) for values in random.normal(size=(20, 3))])
    for one in (found.weight_at_one_temperature, found.temperature_at_one_weight):
        assert -1 <= one.low < one.value < one.high <= 1
    assert re.fullmatch(
        r"over 20 points the gain has the rank correlation \S+ with the weight and \S+ with the temperature; these two "
        r"have \S+\. With the temperature fixed, the weight's is \S+ \(\S+ to \S+\); with the weight fixed, the "
        r"temperature's is \S+ \(\S+ to \S+\)",
        str(found),
    )


@pytest.mark.parametrize("points", [[Point(1, 2, 3)], [Point(gain, 50, 0.2) for gain in range(9)]])
def test_points_that_cannot_be_told_apart_are_refused(points):
    with pytest.raises(ValueError, match="points that differ too little"):
        separation(points)
    with pytest.raises(ValueError, match="points that differ too little"):
        of_gain_with("weight_percent", [point._replace(gain=1) for point in points])
