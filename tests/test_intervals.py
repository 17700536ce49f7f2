"""Intervals cover what they claim, and agree with plain formulas."""

import numpy as np
import pytest
from scipy import stats

from annulus.intervals import Interval, over_seeds, over_seeds_and_images, verdict


def plain_table_interval(table: np.ndarray) -> tuple[float, float]:
    """Mean and half-width, element by element from the text of the sources."""
    seeds, images = table.shape
    mean = sum(table.flatten()) / table.size
    rows = [sum(row) / images for row in table]
    columns = [sum(column) / seeds for column in table.T]
    ms_seeds = images * sum((row - mean) ** 2 for row in rows) / (seeds - 1)
    ms_images = seeds * sum((column - mean) ** 2 for column in columns) / (images - 1)
    rest = sum((table[s, i] - rows[s] - columns[i] + mean) ** 2 for s in range(seeds) for i in range(images)) / (
        (seeds - 1) * (images - 1)
    )
    total = max(ms_seeds - rest, 0) + max(ms_images - rest, 0) + rest
    kept = [(square, f) for square, f in [(ms_seeds, seeds - 1), (ms_images, images - 1)] if square > rest]
    kept.append(((1 - len(kept)) * rest, (seeds - 1) * (images - 1)))
    freedom = max(total**2 / sum(part**2 / f for part, f in kept), seeds - 1)
    return mean, stats.t.ppf(0.975, freedom) * (total / table.size) ** 0.5


@pytest.mark.parametrize(("of_seed", "of_image"), [(0.0, 0.0), (0.2, 0.0), (0.0, 2.0), (0.3, 2.0), (0.5, 1.0)])
def test_a_table_gives_what_the_plain_formula_gives(of_seed, of_image):
    draws = np.random.default_rng(0)
    logits = of_seed * draws.normal(size=(4, 1)) + of_image * draws.normal(size=50)
    table = (draws.random((4, 50)) < 1 / (1 + np.exp(-logits))).astype(float)
    mean, half = plain_table_interval(table)
    found = over_seeds_and_images(table)
    assert found.mean == pytest.approx(mean)
    assert found.half == pytest.approx(half)


# Logits of an image, of a seed, and of a seed with an image; an accuracy near 65 %.
@pytest.mark.parametrize(("seeds", "of_seed"), [(3, 0.0), (3, 0.4), (5, 0.1)])
def test_the_interval_of_an_accuracy_holds_the_seeds_and_the_images(seeds, of_seed):
    draws, images, runs, covered = np.random.default_rng(seeds), 300, 1000, 0
    population = 0.8 + 1.5 * draws.normal(size=200_000)
    steps = stats.norm.ppf((np.arange(100) + 0.5) / 100)
    truth = np.mean([1 / (1 + np.exp(-(population + of_seed * step))) for step in steps])
    for _ in range(runs):
        logits = of_seed * draws.normal(size=(seeds, 1)) + draws.choice(population, images)
        table = draws.random((seeds, images)) < 1 / (1 + np.exp(-logits))
        found = over_seeds_and_images(table)
        covered += abs(found.mean - truth) <= found.half
    assert 0.923 <= covered / runs <= 0.977, "93 to 97 %, and the simulation's own noise"


def test_the_interval_over_seeds_is_students_and_of_one_seed_is_unknown():
    values = [59.4, 60.1, 58.7]
    found = over_seeds(values)
    expected = stats.t.interval(0.95, 2, loc=np.mean(values), scale=stats.sem(values))
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx(expected)
    assert over_seeds([59.4]).half is None
    assert over_seeds([1.0]).minus(found).half is None


def test_one_seed_on_many_images_is_the_interval_of_a_proportion():
    right = np.arange(1000) < 600
    assert over_seeds_and_images(right[None]).half == pytest.approx(1.96 * (0.24 / 1000) ** 0.5, rel=0.01)
    assert over_seeds_and_images(np.zeros((3, 20))).half == 0, "equal runs differ by nothing"


def test_of_one_image_the_interval_holds_the_seeds():
    right = [1.0, 0.0, 1.0]
    assert over_seeds_and_images(np.array(right)[:, None]) == over_seeds(right)
    assert over_seeds_and_images(np.ones((1, 1))).half is None


def test_the_difference_of_independent_means_is_welchs():
    base, head = [1.0, 2.0, 4.0], [2.5, 3.0, 9.0, 4.0]
    found = over_seeds(head).minus(over_seeds(base))
    expected = stats.ttest_ind(head, base, equal_var=False).confidence_interval(0.95)
    assert (found.mean - found.half, found.mean + found.half) == pytest.approx((expected.low, expected.high))


def test_a_verdict_says_what_it_could_have_seen():
    assert verdict(Interval(2.0, 0.25, 1e9)) == "better"
    assert verdict(Interval(-2.0, 0.25, 1e9), ("higher", "lower")) == "lower"
    assert verdict(Interval(0.9, 0.25, 1e9), unit=" points") == "within noise (could see 0.98 points)"
    assert verdict(over_seeds([3.0])) == "one seed"
    assert verdict(Interval(0.0, 0.0, 4)) == "within noise (could see 0)"
