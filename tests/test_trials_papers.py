"""The papers' numbers beside those here; gains in pairs of a seed."""

import pytest

from annulus.trials.papers import compared


def metrics(*accuracies: float, paper: float | None = None) -> dict:
    """The metrics of a row with these accuracies, seeds 0, 1, ..., with the paper's number if there is one."""
    mean = sum(accuracies) / len(accuracies)
    seeds = {f"linear_top1_seed{seed}_percent": value for seed, value in enumerate(accuracies)}
    found = {"linear_top1_percent": mean, "linear_top1_std_over_seeds_percent": 0.7, "knn_top1_percent": mean - 1}
    found |= {"bound_nats": 2.5, "ceiling_nats": 6.25, "epochs": 20, "seeds": len(accuracies), "top1_percent": paper}
    return seeds | found


def test_gains_are_taken_seed_by_seed_with_their_own_spread():
    """Differences 1, 3 and 5 have mean 3 and deviation 2, though the accuracies themselves vary by tens."""
    found = compared(metrics(41, 63, 25, paper=84.7), metrics(40, 60, 20, paper=81.2))
    assert found["here_percent"] == 43
    assert found["here_gain_percent"] == pytest.approx(3)
    assert found["here_gain_std_over_seeds_percent"] == pytest.approx(2)
    assert found["here_std_over_seeds_percent"] == 0.7
    assert found["paper_percent"] == 84.7
    assert found["paper_gain_percent"] == pytest.approx(3.5)
    assert (found["here_knn_percent"], found["bound_nats"], found["ceiling_nats"]) == (42, 2.5, 6.25)
