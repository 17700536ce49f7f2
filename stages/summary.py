"""Summary: the main line's metrics files -> its headline numbers, and the table that a run ends with."""

import argparse
import json
from collections.abc import Mapping
from itertools import zip_longest
from pathlib import Path
from typing import Any

from annulus.config.resolved import SELECTORS
from annulus.errors import InputError
from annulus.files.results import Number
from annulus.pipeline.stage import Results, run_stage

READS = [*SELECTORS, "seed"]
PATHS = ["prepare", "pretrain", "knn", "linear", "diagnostics", "metrics"]

# Headline -> the stage that measured it and the name that it has there.
HEADLINES = {
    "knn_top1_percent": ("knn", "top1_percent"),
    "nn1_top1_percent": ("knn", "nn1_top1_percent"),
    "linear_top1_percent": ("linear", "top1_percent"),
    "pretrain_loss_nats": ("pretrain", "loss_nats"),
    "bound_nats": ("pretrain", "bound_nats"),
    "bound_ceiling_nats": ("pretrain", "ceiling_nats"),
    "validation_nn1_percent": ("pretrain", "validation_nn1_percent"),
    "alignment": ("diagnostics", "alignment"),
    "uniformity": ("diagnostics", "uniformity"),
    "effective_rank": ("diagnostics", "effective_rank"),
    "false_negatives_percent": ("diagnostics", "false_negatives_training_percent"),
    "train_images": ("prepare", "train_images"),
}
# Absent without a validation part, and where the sampler's set in a part of the images is empty.
OPTIONAL = {"validation_nn1_percent", "false_negatives_percent"}

WHERE_TO_LOOK = """\
all numbers    metrics/ (`dvc metrics diff` after a change)
curves         `dvc plots show`
every run      `make mlflow`
a comparison   `dvc exp run -S sampler=cave`, then `dvc exp show --only-changed`"""


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    measured = {stage: read_metrics(getattr(paths, stage)) for stage in PATHS if stage != "metrics"}
    headlines = {}
    for headline, (stage, name) in HEADLINES.items():
        if name in measured[stage]:
            headlines[headline] = measured[stage][name]
        elif headline not in OPTIONAL:
            raise InputError(f"{getattr(paths, stage)} has no {name}; run `dvc repro -f {stage}`")
    print(f"\n{table(params, headlines)}\n\n{WHERE_TO_LOOK}\n")
    return Results(headlines)


def read_metrics(path: Path) -> dict[str, Number]:
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(f"{path} is missing or not a metrics file ({error}); run `dvc repro`") from error


def table(params: Mapping[str, Any], headlines: Mapping[str, Number]) -> str:
    """The variant on the left, its numbers on the right."""
    left = [f"{name:<12}{choice}" for name, choice in params.items()]
    width = max(map(len, left)) + 4
    right = [f"{name:<24}{shown(name, number):>9}" for name, number in headlines.items()]
    return "\n".join(f"{a:<{width}}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue=""))


def shown(name: str, number: Number) -> str:
    if isinstance(number, int):
        return f"{number:,}"
    return f"{number:.2f}" if name.endswith("_percent") else f"{number:.4f}"


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
