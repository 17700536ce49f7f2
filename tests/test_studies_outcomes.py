"""Numbers over seeds and test images, and the rows of a study's tables, from outcomes that are made up."""

import re

import numpy as np
import pytest

from annulus.errors import InputError
from annulus.evals.intervals import over_seeds_and_images
from annulus_lab.studies.shared.outcomes import (
    ACCURACIES,
    Outcome,
    accuracy,
    by_epoch,
    by_value,
    gain,
    metrics_row,
    pair,
    right_by_seed,
)


def outcome(
    right: list[bool], validation: tuple[float, ...] = (10.0, 20.0), outer: tuple[float, ...] = (1.0, 1.0, 1.0)
) -> Outcome:
    """A run with these right test images, and with this validation accuracy (percent) and outer share of each epoch."""
    history = [
        {"epoch": n + 1, "validation_nn1_percent": value, "outer_share": share}
        | {"gradient_norm": 0.5 * n, "gradient_norm_std": 0.25}
        for n, (value, share) in enumerate(zip(validation, outer, strict=False))
    ]
    metrics = {"bound_nats": 2.0, "ceiling_nats": 6.0, "epochs": len(validation)}
    return Outcome(metrics, history, dict.fromkeys(ACCURACIES, right))


def drawn(seeds: int, images: int, chance: float, seed: int) -> dict[int, np.ndarray]:
    random = np.random.default_rng(seed)
    return {number: random.random(images) < chance for number in range(seeds)}


def test_a_gain_is_taken_in_pairs_of_a_seed_and_an_image():
    """test_evals_intervals.py has the interval of such a table by plain loops."""
    right, base = drawn(3, 40, 0.7, 0), drawn(3, 40, 0.4, 1)
    expected = over_seeds_and_images(np.array([100.0 * right[seed] - 100.0 * base[seed] for seed in (0, 1, 2)]))
    interval = gain(right, {seed: base[seed] for seed in (2, 0, 1)})
    assert (interval.mean, interval.variance) == pytest.approx((expected.mean, expected.variance))
    assert interval.mean > 10, "better than the base is above 0"
    assert gain(base, right).mean == pytest.approx(-interval.mean)


def test_runs_that_saw_other_numbers_of_test_images_are_refused():
    right, base = drawn(2, 40, 0.7, 0), drawn(2, 40, 0.4, 1)
    right[1] = right[1][:30]
    with pytest.raises(InputError, match=r"^seed 1: a run saw 30 test images and its base 40, .*; run both"):
        gain(right, base)


def test_a_point_has_its_accuracies_and_gains_with_intervals_and_a_verdict():
    runs = {0: outcome([True] * 9 + [False], (1.0, 1.0)), 1: outcome([True] * 9 + [False], (1.0, 1.0, 1.0))}
    base = {0: outcome([False] * 9 + [True]), 1: outcome([False] * 9 + [True])}
    point = metrics_row(("IR", 16), runs, base)
    assert (point["series"], point["value"], point["seeds"]) == ("IR", 16, 2)
    assert (point["nn1_top1_percent"], point["nn1_gain_percent"]) == (90, 80)
    assert point["linear_top1_interval_percent"] == accuracy(right_by_seed(runs)["linear_top1_percent"]).half
    assert (point["nn1_verdict"], point["linear_verdict"]) == ("better", "better")
    assert metrics_row(("IR", 16), base, runs)["nn1_verdict"] == "worse"
    assert (point["bound_nats"], point["bound_interval_nats"]) == (2, 0)
    assert (point["gradient_mean_norm"], point["gradient_std_norm"]) == (0.75, 0.25)
    assert point["gradient_mean_interval_norm"] == pytest.approx(12.7062 * 0.25, rel=1e-4), "Student's t, two values"
    itself = metrics_row(("none", None), runs, runs)
    assert (itself["value"], itself["nn1_verdict"], itself["nn1_gain_percent"]) == ("", "base", 0)
    other = metrics_row(("ball", 16), dict.fromkeys((0, 1), outcome([False] + [True] * 9)), runs)
    assert re.fullmatch(r"within noise \(could see \d+ points\)", other["nn1_verdict"])
    alone = metrics_row(("one seed", None), {0: runs[0]}, {0: base[0]})
    assert (alone["bound_interval_nats"], alone["nn1_gain_interval_percent"]) == ("", "")
    assert (alone["nn1_gain_percent"], alone["nn1_verdict"]) == (80, "one seed")
    assert pair("IR", "none", {0: runs[0]}, {0: base[0]}) == {
        **{"series": "IR", "base": "none"},
        **{"gain_percent": 80, "gain_interval_percent": "", "verdict": "one seed"},
    }


def test_a_point_has_the_numbers_of_each_seed_whose_mean_is_its_number():
    runs = {7: outcome([True, True, False, True]), 8: outcome([True, False, False, False])}
    for seed, run in runs.items():
        run.metrics["held_out_nats"] = float(seed)
    row = metrics_row(("IR", 16), runs, runs)
    assert (row["linear_top1_seed7_percent"], row["linear_top1_seed8_percent"]) == (75, 25)
    assert (row["held_out_seed7_nats"], row["held_out_seed8_nats"]) == (7, 8)
    for stem, unit in (("nn1_top1", "percent"), ("knn_top1", "percent"), ("bound", "nats"), ("gradient_mean", "norm")):
        seeds = [row[f"{stem}_seed{seed}_{unit}"] for seed in runs]
        assert sum(seeds) / 2 == pytest.approx(row[f"{stem}_{unit}"])


def test_mean_iou_is_compared_in_pairs_of_a_seed_where_both_sides_have_it():
    def segmented(ious: list[float]) -> dict[int, Outcome]:
        runs = {seed: outcome([True, False]) for seed in range(3)}
        for run, value in zip(runs.values(), ious, strict=True):
            run.metrics.update({"mean_iou_percent": value, "pixel_accuracy_percent": value + 10})
        return runs

    base, better = segmented([30.0, 40.0, 50.0]), segmented([33.0, 44.0, 53.5])
    row = metrics_row(("lab", None), better, base)
    assert (row["mean_iou_percent"], row["pixel_accuracy_percent"]) == (pytest.approx(43.5), pytest.approx(53.5))
    assert row["mean_iou_gain_percent"] == pytest.approx(3.5)
    assert row["mean_iou_gain_interval_percent"] == pytest.approx(4.3027 * 0.5 / 3**0.5, rel=1e-4), "Student's t"
    assert row["mean_iou_verdict"] == "better"
    assert metrics_row(("rgb", None), base, base)["mean_iou_verdict"] == "base"
    assert "mean_iou_percent" not in metrics_row(
        ("lab", None), better, {seed: outcome([True, False]) for seed in range(3)}
    )


def test_a_figure_is_over_the_epochs_or_over_the_sweep_with_intervals():
    runs = {
        ("none", None): {0: outcome([True], (1.0, 2.0)), 1: outcome([False], (3.0, 6.0))},
        ("linear", None): {0: outcome([True], (5.0, 7.0)), 1: outcome([True], (5.0, 8.0))},
    }
    points = [tuple(row.values()) for row in by_epoch(runs)]
    assert [row[:3] for row in points] == [("none", 1, 2.0), ("none", 2, 4.0), ("linear", 1, 5.0), ("linear", 2, 7.5)]
    assert [row[3] for row in points] == pytest.approx([12.7062 * 1, 12.7062 * 2, 0, 12.7062 * 0.5], rel=1e-4)
    assert list(by_epoch(runs)[0]) == [
        *("series", "x", "nn1_top1_percent", "nn1_top1_interval_percent"),
        *("nn1_top1_seed0_percent", "nn1_top1_seed1_percent"),
    ]
    assert [row[4:] for row in points] == [(1, 3), (2, 6), (5, 5), (7, 8)]
    swept = {("IR", 0.2): {0: outcome([True, False, True, True]), 1: outcome([True] * 4)}}
    (row,) = by_value(swept)
    right = right_by_seed(swept["IR", 0.2])["nn1_top1_percent"]
    assert list(row.values()) == ["IR", 0.2, 87.5, accuracy(right).half]


def test_a_figure_over_the_epochs_has_the_share_of_rows_that_is_kept_where_annealing_makes_it_differ():
    runs = {
        ("none", None): {0: outcome([True], outer=(0.1, 0.1)), 1: outcome([True], outer=(0.1, 0.1))},
        ("adaptive", None): {0: outcome([True], outer=(1.0, 0.5)), 1: outcome([True], outer=(0.8, 0.1))},
    }
    shares = [(row["kept_percent"], row["kept_interval_percent"]) for row in by_epoch(runs)]
    assert shares == [
        (10.0, 0.0),
        (10.0, 0.0),
        pytest.approx((90.0, 127.062), rel=1e-4),
        (30.0, pytest.approx(254.12, rel=1e-4)),
    ]
    two = {
        (name, None): {0: outcome([True], outer=(share, share))} for name, share in (("ball", 0.1), ("uniform", 1.0))
    }
    assert [row["kept_percent"] for row in by_epoch(two)] == [10, 10, 100, 100]
