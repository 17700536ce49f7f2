"""Numbers over seeds, and the rows of a study's tables, from outcomes that are made up."""

import pytest

from annulus.trials.outcomes import Outcome, by_epoch, numbers, over_seeds


def outcome(accuracy: float, validation: tuple[float, ...] = (10.0, 20.0)) -> Outcome:
    """A run with this accuracy of the nearest neighbour, and so much on its validation images after each epoch."""
    metrics = {"nn1_top1_percent": accuracy, "knn_top1_percent": 31.0, "linear_top1_percent": 32.0}
    metrics |= {"bound_nats": 2.0, "ceiling_nats": 6.0, "epochs": len(validation)}
    history = [
        {"epoch": n + 1, "validation_nn1_percent": value, "gradient_norm": 0.5 * n, "gradient_norm_std": 0.25}
        for n, value in enumerate(validation)
    ]
    return Outcome(metrics, history)


def test_numbers_over_seeds_are_mean_and_deviation_with_the_unit_last():
    """Sample deviation: of 1, 2, 6 it is sqrt((4 + 1 + 9) / 2)."""
    outcomes = [{"linear_top1_percent": value, "loss_nats": 1.0, "epochs": 3} for value in (1.0, 2, 6)]
    found = over_seeds(outcomes, ["linear_top1_percent", "loss_nats"])
    assert found == {
        "seeds": 3,
        "linear_top1_percent": 3.0,
        "linear_top1_std_over_seeds_percent": pytest.approx(7**0.5),
        "loss_nats": 1.0,
        "loss_std_over_seeds_nats": 0.0,
    }
    assert over_seeds([{"bound_nats": 2.5}], ["bound_nats"])["bound_std_over_seeds_nats"] == 0.0


def test_a_figure_without_a_sweep_has_a_row_per_epoch_of_each_series():
    runs = {
        ("none", None): [outcome(0, (1.0, 2.0)), outcome(0, (3.0, 6.0))],
        ("linear", None): [outcome(0, (5.0, 7.0)), outcome(0, (5.0, 8.0))],
    }
    found = [tuple(row.values()) for row in by_epoch(runs)]
    assert found == [("none", 1, 2.0), ("none", 2, 4.0), ("linear", 1, 5.0), ("linear", 2, 7.5)]


def test_a_point_s_numbers_are_over_seeds_with_the_last_epoch_s_gradient():
    found = numbers(("IR", 16), [outcome(30, (1.0, 1.0)), outcome(40, (1.0, 1.0, 1.0))])
    assert (found["series"], found["value"], found["seeds"]) == ("IR", 16, 2)
    assert (found["nn1_top1_percent"], found["nn1_top1_std_over_seeds_percent"]) == (35, pytest.approx(50**0.5))
    assert (found["linear_top1_percent"], found["linear_top1_std_over_seeds_percent"]) == (32, 0)
    assert (found["bound_nats"], found["ceiling_nats"]) == (2, 6)
    assert found["gradient_mean_norm"] == 0.75
    assert found["gradient_mean_std_over_seeds_norm"] == pytest.approx(0.125**0.5)
    assert (found["gradient_std_norm"], found["gradient_std_std_over_seeds_norm"]) == (0.25, 0)
    assert numbers(("none", None), [outcome(30)])["value"] == ""
