"""One algorithm: the study's images -> accuracy and bound, over all seeds."""

import argparse

import _path  # noqa: F401  this checkout's src first

from annulus.config.study import Study
from annulus.pipeline.stage import Results, run_study
from annulus.trials import Trials, load_splits, over_seeds

READS = [
    "datasets",
    "methods",
    "bounds",
    "samplers",
    "anneals",
    "neighbour_sets",
    "view_sets",
    "backbones",
    "optimizer",
    "schedules",
    "knn",
    "linear",
    "scales",
]
OWN = ["scale", "seeds", "defaults", "scales", "rows.${item.row}"]
PATHS = ["images", "metrics"]

MEASURED = [
    "linear_top1_percent",
    "knn_top1_percent",
    "nn1_top1_percent",
    "loss_nats",
    "bound_nats",
    "ceiling_nats",
]


def main(study: Study, arguments: argparse.Namespace) -> Results:
    settings = study.row("rows", arguments.row)
    variants = {seed: study.variant(arguments.row, settings, seed) for seed in study.params.seeds}
    trials = Trials("algorithms", load_splits(arguments.images))
    outcomes = trials.run(variants)
    metrics = over_seeds([outcome.metrics for outcome in outcomes.values()], MEASURED)
    # Each seed's own accuracy too: runs of one seed share weights, order and views, so differences are taken in pairs.
    metrics |= {f"linear_top1_seed{seed}_percent": one.metrics["linear_top1_percent"] for seed, one in outcomes.items()}
    metrics["epochs"] = next(iter(outcomes.values())).metrics["epochs"]
    return Results(metrics, written=trials.done)


if __name__ == "__main__":
    run_study(main, PATHS, items=["row"])
