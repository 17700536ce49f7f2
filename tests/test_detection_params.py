"""Schedules of detectors: the papers' own, and their form for another batch size."""

import pytest
from detector_cases import detector_params, training_params

from annulus.errors import InputError

ONE_X = {"batch_size": 16, "reference_batch": 16, "learning_rate": 0.02, "iterations": 90000}
ONE_X |= {"drops": [60000, 80000], "warmup": 1000}


def test_half_the_batch_takes_twice_the_steps_at_half_the_rate_and_the_largest_one_step():
    half = training_params(**ONE_X | {"batch_size": 8}).scaled()
    assert (half.iterations, half.drops, half.warmup) == (180000, [120000, 160000], 2000)
    assert half.learning_rate == pytest.approx(0.01)
    assert half.scaled() == half, "it is its own reference now"
    assert training_params(**ONE_X).scaled() == training_params(**ONE_X)
    tiny = training_params(batch_size=4096).scaled()
    assert (tiny.iterations, tiny.drops) == (1, [])


def test_the_rate_rises_and_drops_as_in_detectron2():
    rates = {0: 2e-5, 500: 0.01001, 1000: 0.02, 59999: 0.02, 60000: 0.002, 89999: 2e-4}
    assert {step: training_params(**ONE_X).rate(step) for step in rates} == pytest.approx(rates)


def test_settings_that_do_not_fit_together_are_refused():
    with pytest.raises(InputError, match=r"drops: \[7\] must rise and lie below iterations: 6"):
        training_params(drops=[7])
    with pytest.raises(InputError, match="normalisation: batch is for a backbone that learns"):
        detector_params(normalisation="batch")
    with pytest.raises(InputError, match="outputs: keypoints with neck: c4 is not built; take neck: fpn"):
        detector_params(outputs="keypoints", neck="c4")
    with pytest.raises(InputError, match="cascade: true with neck: c4 is not built; take neck: fpn"):
        detector_params(cascade=True, neck="c4")
