"""Schedules of detectors: the papers' own, and what another batch makes of them."""

import pytest
from detector_cases import detector_params, training_params

from annulus.errors import InputError

ONE_X = {
    "batch_size": 16, "reference_batch": 16, "learning_rate": 0.02, "iterations": 90000, "drops": [60000, 80000],
    "warmup": 1000,
}  # fmt: skip


def test_half_the_batch_takes_twice_the_steps_at_half_the_rate():
    half = training_params(**ONE_X | {"batch_size": 8}).scaled()
    assert (half.iterations, half.drops, half.warmup) == (180000, [120000, 160000], 2000)
    assert half.learning_rate == pytest.approx(0.01)
    assert half.scaled() == half, "it is its own reference now"
    assert training_params(**ONE_X).scaled() == training_params(**ONE_X)


@pytest.mark.parametrize(
    ("step", "rate"), [(0, 2e-5), (500, 0.01001), (1000, 0.02), (59999, 0.02), (60000, 0.002), (89999, 2e-4)]
)
def test_the_rate_rises_and_drops_as_in_detectron2(step, rate):
    assert training_params(**ONE_X).rate(step) == pytest.approx(rate)


def test_a_large_batch_leaves_a_schedule_of_at_least_one_step():
    tiny = training_params(batch_size=4096).scaled()
    assert (tiny.iterations, tiny.drops) == (1, [])


def test_drops_outside_of_training_are_refused():
    with pytest.raises(InputError, match=r"drops: \[7\] must rise and lie below iterations: 6"):
        training_params(drops=[7])


def test_batch_normalisation_around_a_frozen_backbone_is_refused():
    with pytest.raises(InputError, match="normalisation: batch is for a backbone that learns"):
        detector_params(normalisation="batch")
