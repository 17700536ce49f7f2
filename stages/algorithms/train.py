"""One algorithm: the study's images -> accuracy and bound, over all seeds."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.pipeline.stage import Results, run_resolved
from annulus.trials.outcomes import over_seeds
from annulus.trials.runs import Trials, load_splits, run_of

PATHS = ["images", "metrics"]

MEASURED = [
    "linear_top1_percent",
    "knn_top1_percent",
    "nn1_top1_percent",
    "loss_nats",
    "bound_nats",
    "ceiling_nats",
]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    trials = Trials("algorithms", load_splits(paths.images))
    outcomes = trials.run({seed: run_of(settings["run"], seed) for seed in settings["seeds"]})
    metrics = over_seeds([outcome.metrics for outcome in outcomes.values()], MEASURED)
    # Each seed's own accuracy too: runs of one seed share weights, order and views, so differences are taken in pairs.
    metrics |= {f"linear_top1_seed{seed}_percent": one.metrics["linear_top1_percent"] for seed, one in outcomes.items()}
    metrics["epochs"] = next(iter(outcomes.values())).metrics["epochs"]
    return Results(metrics, written=trials.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
