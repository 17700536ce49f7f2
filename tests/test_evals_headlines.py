"""Intervals of a headline number over seeds, and of its difference to a base."""

import numpy as np
import pytest
from scipy import stats

from annulus.errors import InputError
from annulus.evals.headlines import HeadlineNumber, headline_numbers
from annulus.evals.intervals import over_seeds, verdict


def accuracy(rate: float, seeds: range, images: int = 2000) -> HeadlineNumber:
    """An accuracy near `rate`; some images are easier than others for every seed."""
    easy, hardest = np.random.default_rng(0).normal(size=images), stats.norm.ppf(1 - rate) * 2**0.5
    right = {seed: easy + np.random.default_rng(seed).normal(size=images) > hardest for seed in seeds}
    return HeadlineNumber({seed: 100 * bits.mean() for seed, bits in right.items()}, right)


def test_an_accuracy_s_interval_holds_the_test_images_and_is_in_percent():
    number = accuracy(0.6, range(5))
    seed_interval = HeadlineNumber(number.values).interval()
    assert number.interval().mean == pytest.approx(np.mean(list(number.values.values())))
    assert number.interval().half > seed_interval.half
    assert number.interval().half == pytest.approx(1.96 * 100 * (0.6 * 0.4 / 2000) ** 0.5, rel=0.5)


def test_all_right_on_few_images_is_not_certain():
    """Nine images, each right with every seed: Laplace's share is 10/11, and its interval has 8 degrees of freedom."""
    number = HeadlineNumber(dict.fromkeys(range(5), 100.0), {seed: np.ones(9, bool) for seed in range(5)})
    half = stats.t.ppf(0.975, 8) * 100 * (10 / 11 * 1 / 11 / 9) ** 0.5
    assert (number.interval().mean, number.interval().half) == (100.0, pytest.approx(half))
    wrong = HeadlineNumber({0: 0.0, 1: 0.0}, {seed: np.zeros(9, bool) for seed in range(2)})
    assert wrong.interval().half == pytest.approx(half)


def test_the_same_runs_do_not_differ_and_a_changed_run_differs_by_what_changed():
    base = accuracy(0.6, range(3))
    same, paired = base.minus(accuracy(0.6, range(2, -1, -1)), same_images=True)
    assert (same.mean, same.half, paired) == (0, 0, True)
    head = {seed: bits.copy() for seed, bits in base.right.items()}
    for bits in head.values():
        bits[:100] = True  # of 2,000, in every seed
    changed = HeadlineNumber({seed: 100 * bits.mean() for seed, bits in head.items()}, head)
    difference, _ = changed.minus(base, same_images=True)
    gain = np.mean([changed.values[seed] - base.values[seed] for seed in base.values])
    assert difference.mean == pytest.approx(gain)
    assert difference.mean > 0
    assert difference.half < base.interval().half, "what all runs share is not counted twice"
    less = base.minus(changed, same_images=True)[0]
    assert (less.mean, less.half) == pytest.approx((-difference.mean, difference.half))


def test_other_test_images_are_compared_by_seed_and_other_seeds_image_by_image():
    base, head = accuracy(0.6, range(3)), accuracy(0.7, range(2, -1, -1), images=500)
    difference, paired = head.minus(base, same_images=False)
    expected = [head.values[seed] - base.values[seed] for seed in range(3)]
    assert paired
    assert difference.mean == pytest.approx(np.mean(expected))
    assert difference.half >= 1.96 * 100 * (0.7 * 0.3 / 500) ** 0.5 * 0.5, "other images are another sample"
    base, other = accuracy(0.6, range(5)), accuracy(0.7, range(5, 10))
    difference, paired = other.minus(base, same_images=True)
    assert not paired
    assert difference.mean == pytest.approx(other.interval().mean - base.interval().mean)
    assert difference.half < other.interval().minus(base.interval()).half, "the images that both saw count once"
    base, other = HeadlineNumber({0: 0.0, 1: 1.0}), HeadlineNumber({5: 14.0, 6: 15.0})
    difference, paired = other.minus(base, same_images=True)
    assert (difference.mean, paired) == (14.0, False)
    assert base.minus(base, same_images=True)[1]


@pytest.mark.parametrize("more", [1, 3])
@pytest.mark.parametrize("seeds", [2, 3, 5])
def test_shares_of_few_images_that_differ_alike_in_all_seeds_by_chance_get_no_verdict(seeds, more):
    """Shares are of 300 images, rounded to four decimals."""
    base = {seed: round(100 * (135 + seed) / 300, 4) for seed in range(seeds)}
    head = {seed: round(100 * (135 + more + seed) / 300, 4) for seed in range(seeds)}
    difference, _ = HeadlineNumber(head, images=300).minus(HeadlineNumber(base, images=300), same_images=True)
    image_half = 1.96 * 100 * (2 * 0.45 * 0.55 / 300 / seeds) ** 0.5
    assert difference.mean == pytest.approx(more / 3, abs=1e-3)
    assert difference.half == pytest.approx(image_half, rel=0.1)
    assert verdict(difference).startswith("within noise")
    same, _ = HeadlineNumber(base, images=300).minus(HeadlineNumber(base, images=300), same_images=True)
    assert verdict(same) == "equal"
    flat = HeadlineNumber(dict.fromkeys(range(seeds), 45.0), images=300).interval()
    assert flat.half == pytest.approx(image_half / 2**0.5, rel=0.1)


def test_a_share_of_all_images_in_every_seed_is_not_certain():
    """Laplace's rule estimates 61 of 62 for 60 of 60."""
    variance = 100**2 * 61 / 62 * 1 / 62 / 60
    interval = HeadlineNumber({0: 100.0, 1: 100.0}, images=30).interval()
    assert interval.half == pytest.approx(stats.t.ppf(0.975, 59) * variance**0.5)


def test_shares_that_differ_otherwise_and_other_numbers_keep_the_interval_over_their_seeds():
    base, head = {0: 45.0, 1: 46.0, 2: 44.0}, {0: 47.0, 1: 47.5, 2: 46.5}
    expected = over_seeds([head[seed] - base[seed] for seed in base])
    assert HeadlineNumber(head, images=400).minus(HeadlineNumber(base, images=400), same_images=True)[0] == expected
    ceiling = [HeadlineNumber(dict.fromkeys(range(3), nats)) for nats in (2.8332, 3.5)]
    assert verdict(ceiling[1].minus(ceiling[0], same_images=True)[0], ("higher", "lower")) == "higher"


def test_a_number_that_a_seed_lacks_is_left_out_if_it_is_optional_or_there_are_no_classes_and_refused_otherwise():
    def by_seed(**numbers):
        return {str(seed): dict(numbers) for seed in (0, 1)}

    validation = {"validation_nn1_percent": 50.0, "validation_images": 10}
    stages = {
        "pretrain": by_seed(loss_nats=2.0, bound_nats=1.0, ceiling_nats=3.0, **validation),
        "knn": by_seed(),
        "linear": by_seed(),
        "diagnostics": by_seed(alignment=0.4, uniformity=-2.0, effective_rank=30.0),
    }
    unlabelled = {"knn": {}, "linear": {}}
    nats, geometry = ["pretrain_loss_nats", "bound_nats", "bound_ceiling_nats"], ["alignment", "uniformity"]
    numbers = headline_numbers(stages, unlabelled, [0, 1])
    assert list(numbers) == [*nats, "validation_nn1_percent", *geometry, "effective_rank"]
    assert numbers["validation_nn1_percent"] == HeadlineNumber({0: 50.0, 1: 50.0}, images=10)
    del stages["pretrain"]["1"]["validation_nn1_percent"]
    assert list(headline_numbers(stages, unlabelled, [0, 1])) == [*nats, *geometry, "effective_rank"]
    bits = {"top1_percent": dict.fromkeys((0, 1), np.zeros(4, dtype=bool))}
    with pytest.raises(InputError, match=r"^metrics/main/knn.json has no top1_percent of seed 0; run `dvc repro -f k"):
        headline_numbers(stages, unlabelled | {"knn": bits}, [0, 1])
