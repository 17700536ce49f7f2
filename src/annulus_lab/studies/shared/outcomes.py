"""Results of runs over seeds and against a base, paired by seed and test image, as rows of a study's tables."""

import statistics
from collections.abc import Mapping
from typing import Any

import numpy as np

from annulus.errors import InputError
from annulus.evals.intervals import Interval, over_seeds, over_seeds_and_images, verdict
from annulus.files.results import Number
from annulus.files.right import Bits
from annulus_lab.studies.shared.measured import CLOSENESS, GRADIENT, Outcome

ACCURACIES = ["nn1_top1_percent", "knn_top1_percent", "linear_top1_percent"]
SHOWN = "nn1_top1_percent"  # the accuracy of the papers' figures: nearest neighbour

GridPoint = tuple[str, Any]  # a series, and the sweep's value; None without a sweep
BySeed = Mapping[int, Bits]  # bits of the right test images
SeedRuns = Mapping[int, Outcome]  # of one variant, by seed


def right_by_seed(runs: SeedRuns) -> dict[str, BySeed]:
    """Correctly classified test images, by accuracy and seed."""
    return {name: {seed: np.array(run.right[name]) for seed, run in runs.items()} for name in ACCURACIES}


def accuracy(right: BySeed) -> Interval:
    """Percent of right test images, with an interval over seeds and images."""
    return over_seeds_and_images(np.stack(list(right.values()))).times(100)


def gain(right: BySeed, base: BySeed) -> Interval:
    """Percentage points above a base, in pairs of a seed and a test image: runs of one seed share weights and order.

    Raises:
        InputError: when a run and its base have different numbers of test images, as runs of two scales have.
    """
    for seed, bits in right.items():
        if len(bits) != len(base[seed]):
            raise InputError(
                f"seed {seed}: a run saw {len(bits)} test images and its base {len(base[seed])}, so that none can be "
                "paired; run both at one scale"
            )
    return over_seeds_and_images(np.stack([bits.astype(np.int8) - base[seed] for seed, bits in right.items()])).times(
        100
    )


def with_interval(name: str, interval: Interval) -> dict[str, Number]:
    """Number and half of its interval, with `interval` before the unit; the half is empty for a single seed."""
    stem, _, unit = name.rpartition("_")
    return {name: interval.mean, f"{stem}_interval_{unit}": "" if interval.half is None else interval.half}


def by_seed(name: str, values: Mapping[int, Number]) -> dict[str, Number]:
    """Number of each seed, with `seedN` before the unit: claims compare any two rows in pairs of a seed."""
    stem, _, unit = name.rpartition("_")
    return {f"{stem}_seed{seed}_{unit}": value for seed, value in values.items()}


def metrics_row(point: GridPoint, runs: SeedRuns, base: SeedRuns) -> dict[str, Number]:
    """All measurements at a point of a grid, and its gains over the base; the gradient is the last epoch's."""
    row: dict[str, Number] = {"series": point[0], "value": "" if point[1] is None else point[1], "seeds": len(runs)}
    right, other = right_by_seed(runs), right_by_seed(base)
    for name in ACCURACIES:
        stem, above = name.removesuffix("_top1_percent"), gain(right[name], other[name])
        row |= with_interval(name, accuracy(right[name])) | with_interval(f"{stem}_gain_percent", above)
        row[f"{stem}_verdict"] = "base" if runs is base else verdict_text(above)
    seeds = {name: {seed: 100 * float(bits.mean()) for seed, bits in right[name].items()} for name in ACCURACIES}
    for name in ("bound_nats", "ceiling_nats", "held_out_nats", "held_out_ceiling_nats", *CLOSENESS, GRADIENT):
        if all(name in run.metrics for run in runs.values()):
            values = {seed: float(run.metrics[name]) for seed, run in runs.items()}
            row |= with_interval(name, over_seeds(list(values.values())))
            if name in ("bound_nats", "held_out_nats"):
                seeds[name] = values
    row |= _segmentation(runs, base)
    last = {seed: run.history[-1] for seed, run in runs.items()}
    seeds["gradient_mean_norm"] = {seed: float(epoch["gradient_norm"]) for seed, epoch in last.items()}
    row |= with_interval("gradient_mean_norm", over_seeds(list(seeds["gradient_mean_norm"].values())))
    row["gradient_std_norm"] = statistics.fmean(float(epoch["gradient_norm_std"]) for epoch in last.values())
    for name, values in seeds.items():
        row |= by_seed(name, values)
    return row


def _segmentation(runs: SeedRuns, base: SeedRuns) -> dict[str, Number]:
    """Mean IoU and pixel accuracy of runs that segment, and the gain in mean IoU over the base in pairs of a seed.

    Mean IoU is computed over all test images together, so its interval covers the seeds only.
    """
    if not all("mean_iou_percent" in run.metrics for run in [*runs.values(), *base.values()]):
        return {}
    means = {seed: float(run.metrics["mean_iou_percent"]) for seed, run in runs.items()}
    above = over_seeds([value - float(base[seed].metrics["mean_iou_percent"]) for seed, value in means.items()])
    pixels = over_seeds([float(run.metrics["pixel_accuracy_percent"]) for run in runs.values()])
    row = with_interval("mean_iou_percent", over_seeds(list(means.values())))
    row |= with_interval("mean_iou_gain_percent", above)
    row["mean_iou_verdict"] = "base" if runs is base else verdict_text(above)
    return row | with_interval("pixel_accuracy_percent", pixels)


def pair(series: str, base: str, runs: SeedRuns, base_runs: SeedRuns) -> dict[str, Number]:
    """Gain of one variant over another in the linear probe's accuracy."""
    above = gain(*(right_by_seed(variant)["linear_top1_percent"] for variant in (runs, base_runs)))
    return {"series": series, "base": base} | with_interval("gain_percent", above) | {"verdict": verdict_text(above)}


def verdict_text(difference: Interval) -> str:
    """Verdict on a gain."""
    return verdict(difference, unit=" points")


def by_value(runs: Mapping[GridPoint, SeedRuns]) -> list[dict[str, Number]]:
    """Rows of a sweep's figure: accuracy on the test images over the value."""
    return [
        {"series": name, "x": value} | with_interval(SHOWN, accuracy(right_by_seed(seed_runs)[SHOWN]))
        for (name, value), seed_runs in runs.items()
    ]


def by_epoch(runs: Mapping[GridPoint, SeedRuns]) -> list[dict[str, Number]]:
    """Rows of a figure without a sweep: accuracy on the validation part over the epochs.

    If annealing changes the candidate sets, the rows also hold their outer share of the closest rows after the epoch.
    """
    reached = {row["outer_share"] for seed_runs in runs.values() for run in seed_runs.values() for row in run.history}
    columns = {SHOWN: ("validation_nn1_percent", 1)}
    if len(reached) > 1:
        columns["kept_percent"] = ("outer_share", 100)
    rows: list[dict[str, Number]] = []
    for (name, _), seed_runs in runs.items():
        for rows_of_epoch in zip(*(run.history for run in seed_runs.values()), strict=True):
            row: dict[str, Number] = {"series": name, "x": rows_of_epoch[0]["epoch"]}
            for column, (measured, times) in columns.items():
                values = [float(seed_row[measured]) for seed_row in rows_of_epoch]
                row |= with_interval(column, over_seeds(values).times(times))
            accuracies = [float(seed_row["validation_nn1_percent"]) for seed_row in rows_of_epoch]
            rows.append(row | by_seed(SHOWN, dict(zip(seed_runs, accuracies, strict=True))))
    return rows
