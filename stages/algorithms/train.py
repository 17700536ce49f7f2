"""One algorithm: the study's images -> accuracies and bound of each seed, and its right test images."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.right import write_right
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.shared.measured import CLOSENESS
from annulus_lab.studies.shared.outcomes import ACCURACIES, right_by_seed
from annulus_lab.studies.shared.runs import Trial, Trials, build_trial, load_splits

PATHS = ["images", "metrics", "right"]

MEASURED = [*ACCURACIES, "loss_nats", "bound_nats", "ceiling_nats", "epochs"]


def runs(settings: Mapping[str, Any]) -> dict[int, Trial]:
    """Trials of the stage, by seed; `annulus sweep` calls it too."""
    views = settings.get("closeness_views")
    return {seed: build_trial(settings["run"], seed, closeness_views=views) for seed in settings["seeds"]}


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    outcomes = Trials(load_splits(paths.images)).run(runs(settings))
    write_right(paths.right, right_by_seed(outcomes))
    return Results.by_seed(
        {
            seed: {name: outcome.metrics[name] for name in MEASURED}
            | {name: outcome.metrics[name] for name in ("linear_top5_percent", *CLOSENESS) if name in outcome.metrics}
            for seed, outcome in outcomes.items()
        }
    )


if __name__ == "__main__":
    run_resolved(main, PATHS)
