"""One algorithm: the study's images -> accuracies and bound of each seed, and which test images were right."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.right import write_right
from annulus.pipeline.stage import Results, run_resolved
from annulus.trials.outcomes import ACCURACIES, right_by_seed
from annulus.trials.runs import Trials, load_splits, run_of

PATHS = ["images", "metrics", "right"]

MEASURED = [*ACCURACIES, "loss_nats", "bound_nats", "ceiling_nats", "epochs"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    trials = Trials("algorithms", load_splits(paths.images))
    runs = trials.run({seed: run_of(settings["run"], seed) for seed in settings["seeds"]})
    write_right(paths.right, right_by_seed(runs))
    of_seeds = {seed: {name: run.metrics[name] for name in MEASURED} for seed, run in runs.items()}
    return Results.of_seeds(of_seeds, written=trials.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
