"""Annealing policies against sequences worked out by hand (arXiv:2010.02037, appendix E)."""

import pytest

from annulus.negatives.annealing import AdaptiveProgress, ConstantAnnealing, LinearAnnealing, StepAnnealing

POLICIES = {
    "none": ConstantAnnealing,
    "linear": lambda: LinearAnnealing(until=0.5),
    "step": lambda: StepAnnealing(until=0.5, steps=5),
    "adaptive-epoch": lambda: AdaptiveProgress(delta=0.25, window=3, watches="accuracy"),
    "adaptive-step": lambda: AdaptiveProgress(delta=0.25, window=3, watches="loss"),
}


@pytest.mark.parametrize(
    ("policy", "shares"),
    [
        ("none", {0.0: 1.0, 0.5: 1.0, 1.0: 1.0}),
        ("linear", {0.0: 0.0, 0.1: 0.2, 0.25: 0.5, 0.5: 1.0, 1.0: 1.0}),
        ("step", {0.0: 0.0, 0.099: 0.0, 0.1: 0.2, 0.199: 0.2, 0.3: 0.6, 0.4: 0.8, 0.499: 0.8, 0.5: 1.0, 1.0: 1.0}),
    ],
)
def test_the_share_is_whole_or_rises_in_a_line_or_in_equal_steps_that_end_where_the_line_ends(policy, shares):
    annealing = POLICIES[policy]()
    annealing.after_step(1.0)
    annealing.after_epoch(None)
    assert [annealing.progress(trained) for trained in shares] == pytest.approx(list(shares.values()))


def test_adaptive_epoch_moves_when_accuracy_beats_the_mean_of_the_window():
    annealing = AdaptiveProgress(delta=0.25, window=3, watches="accuracy")
    #             accuracy, mean of up to three before it -> progress after it
    sequence = [
        (40.0, 0.0),  # no earlier accuracy
        (40.0, 0.0),  # 40: an equal value does not count
        (43.0, 0.25),  # 40
        (41.5, 0.5),  # 41: above the mean, though below the last
        (41.4, 0.5),  # 41.5: holds, never back
        (30.0, 0.5),  # 41.97
        (39.0, 0.75),  # 37.63 of (41.5, 41.4, 30): the 43 has left the window
        (50.0, 1.0),  # 36.8
        (60.0, 1.0),  # never beyond the sampler's own set
    ]
    for accuracy, progress in sequence:
        annealing.after_epoch(accuracy)
        assert annealing.progress(0.5) == pytest.approx(progress)


def test_adaptive_step_moves_when_the_loss_is_below_the_mean_of_the_window():
    annealing = AdaptiveProgress(delta=0.4, window=2, watches="loss")
    #            loss, mean of up to two before it -> progress after it
    sequence = [(5.0, 0.0), (4.0, 0.4), (4.5, 0.4), (4.3, 0.4), (4.2, 0.8), (4.0, 1.0), (3.0, 1.0)]
    #                 5: below   4.5: equal  4.25       4.4        4.25: reaches 1.2, kept at 1
    for loss, progress in sequence:
        annealing.after_step(loss)
        assert annealing.progress(0.5) == pytest.approx(progress)


def test_each_adaptive_policy_watches_its_own_measure_alone():
    by_epoch, by_step = POLICIES["adaptive-epoch"](), POLICIES["adaptive-step"]()
    for value in (1.0, 2.0, 3.0):
        by_epoch.after_step(-value)
        by_step.after_epoch(value)
    assert (by_epoch.progress(1.0), by_step.progress(1.0)) == (0.0, 0.0)
    assert [name for name, make in POLICIES.items() if make().watches_loss] == ["adaptive-step"]
    assert [name for name, make in POLICIES.items() if make().watches_accuracy] == ["adaptive-epoch"]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_loaded_state_goes_on_like_the_one_that_was_saved(policy):
    def watch(annealing, value):
        annealing.after_step(value)
        annealing.after_epoch(value)
        return annealing.progress(0.3)

    original, resumed = POLICIES[policy](), POLICIES[policy]()
    for value in (3.0, 5.0, 4.0, 4.5, 6.0):
        watch(original, value)
    for value in (50.0, 1.0):  # load_state_dict discards these
        watch(resumed, value)
    resumed.load_state_dict(original.state_dict())
    for value in (5.5, 4.9, 4.8, 5.2):
        assert watch(resumed, value) == watch(original, value)
