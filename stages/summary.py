"""Summary: the main line's metrics files -> its headline numbers over all seeds, and the table that a run ends with."""

import argparse
import os
from collections.abc import Mapping
from itertools import zip_longest
from typing import Any

from annulus.config.resolved import SELECTORS
from annulus.evals.headlines import measured
from annulus.files.results import Metrics, Number, read_metrics, write_table
from annulus.files.right import read_right
from annulus.pipeline.stage import Results, run_stage

READS = [*SELECTORS, "seeds"]
PATHS = ["prepare", "pretrain", "knn", "knn_right", "linear", "linear_right", "diagnostics", "table", "metrics"]

WHERE_TO_LOOK = """\
all numbers    metrics/ (each seed's: metrics/summary.csv)
curves         `dvc plots show`
every run      `make mlflow`
a comparison   `dvc exp run -S sampler={other}`, then `make compare BASE={base}`"""

WITHOUT_CLASSES = """

the images have no class, so there is no accuracy; what the encoder learned: metrics/main/neighbours.png, map.svg"""


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    stages = {stage: read_metrics(getattr(paths, stage)) for stage in ("pretrain", "knn", "linear", "diagnostics")}
    right = {stage: read_right(getattr(paths, f"{stage}_right")) for stage in ("knn", "linear")}
    measured_by_name = measured(stages, right, params["seeds"])
    intervals = {name: headline.interval() for name, headline in measured_by_name.items()}
    rows: list[Metrics] = []
    for name, headline in measured_by_name.items():
        half = intervals[name].half
        row = {"number": name, "mean": _digits(name, intervals[name].mean)}
        row["interval"] = "" if half is None else _digits(name, half)
        rows.append(row | {f"seed{seed}": _digits(name, value) for seed, value in headline.values.items()})
    write_table(paths.table, rows)
    headlines: dict[str, Number] = {name: interval.mean for name, interval in intervals.items()}
    for name in ("knn_top1_percent", "linear_top1_percent"):
        if name in intervals and (half := intervals[name].half) is not None:
            headlines[name.replace("_percent", "_interval_percent")] = half
    headlines["train_images"] = read_metrics(paths.prepare)["train_images"]
    note = "" if "knn_top1_percent" in headlines else WITHOUT_CLASSES
    other = "ring" if params["sampler"] == "cave" else "cave"
    where = WHERE_TO_LOOK.format(other=other, base=os.environ.get("DVC_EXP_NAME", "HEAD"))
    print(f"\n{summary_text(params, rows)}{note}\n\n{where}\n")
    return Results(headlines)


def summary_text(params: Mapping[str, Any], rows: list[Metrics]) -> str:
    """The variant on the left, its numbers with their intervals on the right."""
    left = [f"{name:<12}{choice}" for name, choice in params.items()]
    width = max(map(len, left)) + 4
    right = [
        f"{row['number']:<24}{row['mean']:>9}" + (f" ± {row['interval']}" * (row["interval"] != "")) for row in rows
    ]
    right += ["", "±: 95 % interval over seeds, of accuracies also over test images"]
    return "\n".join(f"{a:<{width}}{b}".rstrip() for a, b in zip_longest(left, right, fillvalue=""))


def _digits(name: str, value: float) -> str:
    return f"{value:.2f}" if name.endswith("_percent") else f"{value:.4f}"


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
