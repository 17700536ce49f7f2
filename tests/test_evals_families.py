"""Many differences together: Holm's correction against a plain loop, and the number of verdicts by chance."""

import numpy as np
import pytest
from scipy import stats

from annulus.evals.families import by_chance, from_half, p_value, survivors
from annulus.evals.intervals import Interval, over_seeds


def test_the_p_value_is_students_and_agrees_with_the_interval():
    values = [1.0, 2.5, 0.5, 1.8]
    assert p_value(over_seeds(values)) == pytest.approx(stats.ttest_1samp(values, 0).pvalue)
    for mean in (0.9, 1.1):
        interval = Interval(mean, (1 / stats.t.ppf(0.975, 4)) ** 2, 4)  # half is 1
        assert (p_value(interval) < 0.05) == (abs(interval.mean) > interval.half)
    assert p_value(over_seeds([3.0])) == p_value(Interval(0.0, 0.0, 4)) == 1.0
    assert p_value(over_seeds([2.0, 2.0])) == 0.0


def test_a_half_gives_its_interval_again():
    interval = over_seeds([1.0, 2.5, 0.5, 1.8])
    again = from_half(interval.mean, interval.half, 4)
    assert (again.half, again.freedom) == (pytest.approx(interval.half), 3)
    assert from_half(1.0, None, 5) == from_half(1.0, 0.5, 1) == Interval(1.0, 0.0, 0)


def test_survivors_are_holms():
    """The definition compares the smallest p with 0.05 / n, the next with 0.05 / (n - 1), until one fails."""
    random = np.random.default_rng(1)
    for _ in range(50):
        rows = [over_seeds(random.normal(effect, 1, 5).tolist()) for effect in (0, 0, 1, 2, 4, 8)]
        expected, remaining = set(), {i: p_value(row) for i, row in enumerate(rows)}
        while remaining:
            best = min(remaining, key=remaining.get)
            if remaining.pop(best) > 0.05 / (len(remaining) + 1):
                break
            expected.add(best)
        assert {i for i, stands in enumerate(survivors(rows)) if stands} == expected
    assert survivors([]) == []


def test_holms_correction_ends_at_the_first_p_that_fails():
    """0.03 is above 0.05 / 2, so 0.04 does not survive, though it is below 0.05."""

    def row(p):
        return Interval(float(stats.t.isf(p / 2, 4)), 1.0, 4)

    assert survivors([row(0.04), row(0.03)]) == [False, False]
    assert survivors([row(0.04), row(0.02)]) == [True, True]


def test_where_nothing_differs_a_survivor_stands_in_a_twentieth_of_tables_at_most():
    random, false = np.random.default_rng(2), 0
    for _ in range(1000):
        numbers = random.normal(size=(21, 5))
        false += any(survivors([over_seeds(row.tolist()) for row in numbers[1:] - numbers[0]]))
    assert false <= 70  # 50 at most on average, with a deviation of 7


def test_verdicts_by_chance_are_a_twentieth_of_the_rows_and_come_together():
    chance = by_chance(40, 5)
    assert chance.mean == pytest.approx(2, abs=0.05)
    assert chance.one_of_ten == 5
    assert chance.any_percent == pytest.approx(65, abs=2)  # 87 with independent rows
    assert by_chance(1, 5).any_percent == pytest.approx(5, abs=0.5)
    assert by_chance(0, 5) == by_chance(9, 1) == (0.0, 0, 0.0)
