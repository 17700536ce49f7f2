"""Summary: the numbers of all stages -> metrics/, which git keeps: their files, the headline numbers, their table.

Only this stage writes there, after all other stages: a run that fails or is killed leaves metrics/ as it was.
"""

import argparse
import os
from collections.abc import Mapping
from typing import Any

from annulus.evals.headlines import headline_numbers
from annulus.files.results import Metrics, Number, read_metrics, write_bytes, write_table
from annulus.files.right import read_right
from annulus_lab.config.resolved import SELECTORS
from annulus_lab.pipeline.result import result_text
from annulus_lab.pipeline.stage import Results, run_stage

READS = [*SELECTORS, "seeds"]
PATHS = ["numbers", "main", "table", "metrics"]


def main(params: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    stages = {
        stage: read_metrics(paths.numbers / f"{stage}.json") for stage in ("pretrain", "knn", "linear", "diagnostics")
    }
    right = {stage: read_right(paths.numbers / f"{stage}_right.json") for stage in ("knn", "linear")}
    measured_by_name = headline_numbers(stages, right, params["seeds"])
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
    headlines["train_images"] = read_metrics(paths.numbers / "prepare.json")["train_images"]
    for file in sorted(paths.numbers.glob("[!.]*")):
        write_bytes(paths.main / file.name, file.read_bytes())
    if os.environ.get("ANNULUS_RESULT") != "last":
        print(f"\n{result_text(params, rows)}\n")
    return Results(headlines)


def _digits(name: str, value: float) -> str:
    return f"{value:.2f}" if name.endswith("_percent") else f"{value:.4f}"


if __name__ == "__main__":
    run_stage(main, READS, PATHS)
