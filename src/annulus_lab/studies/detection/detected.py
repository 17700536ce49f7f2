"""Numbers of a task: average precision of each variant, and gains between variants."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from annulus.evals.intervals import Interval, over_seeds, verdict
from annulus.files.results import Number
from annulus_lab.studies.detection.bootstrap import interval
from annulus_lab.studies.detection.detection_tables import MAIN, UNIFORM, UNTRAINED
from annulus_lab.studies.shared.outcomes import with_interval

PAIRS = ((MAIN, UNTRAINED), (MAIN, UNIFORM), (UNIFORM, UNTRAINED))

DetectorRuns = Mapping[int, Mapping[str, Any]]  # of one variant, by seed: results of `evaluate_detector`
RunsByVariant = Mapping[str, DetectorRuns]


def names(*variants: DetectorRuns) -> list[str]:
    """Names of the numbers that every run has, in the order of the first run."""
    runs = [run for variant_runs in variants for run in variant_runs.values()]
    return [name for name in runs[0]["ap"] if all(name in run["ap"] for run in runs)]


def precision(runs: DetectorRuns, name: str) -> Interval:
    """Mean over seeds, with an interval over seeds and test pictures; over seeds only for numbers by size."""
    if not _resampled([runs], name):
        return over_seeds([run["ap"][name] for run in runs.values()])
    return interval(_table(runs, name))


def gain(runs: DetectorRuns, base: DetectorRuns, name: str) -> Interval:
    """Percentage points above a base, in pairs of a seed and a draw of the test pictures."""
    if not _resampled([runs, base], name):
        return over_seeds([run["ap"][name] - base[seed]["ap"][name] for seed, run in runs.items()])
    return interval(_table(runs, name) - _table({seed: base[seed] for seed in runs}, name))


def _resampled(both: Sequence[DetectorRuns], name: str) -> bool:
    return all(name in run["resampled"] for runs in both for run in runs.values())


def _table(runs: DetectorRuns, name: str) -> Float[np.ndarray, "s r"]:
    """Values of a number (seeds, draws); the first column belongs to the pictures themselves."""
    return np.array([run["resampled"][name] for run in runs.values()])


def metrics_row(runs_by_variant: RunsByVariant) -> dict[str, Number]:
    """All numbers by variant and seed, flat: main_box_ap_percent, main_0_box_ap_percent, main_over_untrained_..."""
    metrics: dict[str, Number] = {}
    shared = names(*runs_by_variant.values())
    for variant, runs in runs_by_variant.items():
        for name in shared:
            metrics |= with_interval(f"{variant}_{name}", precision(runs, name))
            metrics |= {f"{variant}_{seed}_{name}": run["ap"][name] for seed, run in runs.items()}
        metrics[f"{variant}_last_loss"] = over_seeds([run["loss"] for run in runs.values()]).mean
    for one, base in PAIRS:
        for name in shared:
            above = gain(runs_by_variant[one], runs_by_variant[base], name)
            metrics |= with_interval(f"{one}_over_{base}_{name}", above)
            metrics[f"{one}_over_{base}_{name.removesuffix('_percent')}_verdict"] = verdict(above, unit=" points")
    return metrics
