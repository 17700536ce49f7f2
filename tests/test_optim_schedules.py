"""Learning rates at their corners, and the plateau against sequences worked out by hand."""

import math

import pytest

from annulus.optim.schedules import ConstantSchedule, CosineSchedule, MilestoneSchedule, PlateauSchedule, Schedule

MILESTONES = MilestoneSchedule(at=[0.5, 0.75], factor=0.1)
PLATEAU = PlateauSchedule(patience=2, factor=0.1, drops=2)
POLICIES = [ConstantSchedule(), CosineSchedule(), MILESTONES, PLATEAU]
each_policy = pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: type(policy).__name__)


def rates(policy, shares, warmup=0.0):
    schedule = Schedule(policy, learning_rate=0.03, warmup=warmup)
    return [schedule.rate(share) for share in shares]


@each_policy
def test_warm_up_rises_in_a_line_from_zero_to_the_full_rate_where_training_starts_without(policy):
    assert rates(policy, [0.0]) == [0.03]
    assert rates(policy, [0.0, 0.05, 0.1, 0.2], warmup=0.2) == pytest.approx([0.0, 0.0075, 0.015, 0.03])


def test_cosine_falls_along_half_a_cosine_to_zero_after_a_warm_up_the_whole_one():
    expected = [0.03, 0.03 * (1 + math.sqrt(0.5)) / 2, 0.015, 0.0]
    assert rates(CosineSchedule(), [0.0, 0.25, 0.5, 1.0]) == pytest.approx(expected)
    assert rates(CosineSchedule(), [0.2, 0.6, 1.0], warmup=0.2) == pytest.approx([0.03, 0.015, 0.0])


def test_milestones_count_shares_of_all_training_also_after_a_warm_up():
    """params.yaml's 0.6667 and 0.8333 of 300 epochs are the papers' 200 and 250."""
    for warmup in (0.0, 0.2):
        actual = rates(MILESTONES, [0.49, 0.5, 0.74, 0.75, 0.99], warmup)
        assert actual == pytest.approx([0.03, 0.003, 0.003, 0.0003, 0.0003])
    published = MilestoneSchedule(at=[0.6667, 0.8333], factor=0.1)
    actual = rates(published, [199.9 / 300, 200.1 / 300, 249.9 / 300, 250.1 / 300])
    assert actual == pytest.approx([0.03, 0.003, 0.003, 0.0003])


def test_plateau_drops_after_patience_epochs_without_a_better_accuracy():
    schedule = Schedule(PLATEAU, learning_rate=1.0, warmup=0.0)
    for accuracy, rate in (
        (50.0, 1.0),
        (49.0, 1.0),  # waited 1
        (51.0, 1.0),  # better: the count starts again
        (51.0, 1.0),  # equal is not better: waited 1
        (50.9, 0.1),  # waited 2: drop
        (50.0, 0.1),  # the count starts again, from the best so far
        (51.1, 0.1),
        (51.0, 0.1),
        (51.0, 0.01),  # the second and last drop
        (51.0, 0.01),
        (51.0, 0.01),
    ):
        schedule.after_epoch(accuracy)
        assert schedule.rate(0.5) == pytest.approx(rate)


@each_policy
def test_a_loaded_state_goes_on_like_the_one_that_was_saved_and_only_a_plateau_needs_an_accuracy(policy):
    original, resumed = (Schedule(policy, learning_rate=1.0, warmup=0.1) for _ in range(2))
    for accuracy in (50.0, 49.0, 49.0, 48.0):
        original.after_epoch(accuracy if policy is PLATEAU else None)
    resumed.load_state_dict(original.state_dict())
    for accuracy in (49.5, 50.5, 50.0, 50.0):
        for schedule in (original, resumed):
            schedule.after_epoch(accuracy)
        assert resumed.rate(0.6) == original.rate(0.6)
    assert policy is not POLICIES[0] or original.rate(0.999) == 1.0, "a constant stays"
