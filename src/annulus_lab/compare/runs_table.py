"""Table of the runs in 100 columns: `make runs` lists the workspace, HEAD and the newest DVC experiments.

`--to FILE` writes all runs, also of the studies, as CSV or Parquet.
"""

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from annulus.errors import InputError
from annulus.files.results import check_folder
from annulus.files.strict import finite, parse_json
from annulus_lab.compare.all_runs import write_all_runs
from annulus_lab.compare.comparison import digits
from annulus_lab.compare.sides import repository, side_files
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.pipeline.revision import WORKSPACE, RevisionFiles, experiments
from annulus_lab.pipeline.stale import flat, read_yaml, stale

SHOWN = {"knn_top1_percent": "knn, %", "linear_top1_percent": "linear probe, %", "bound_nats": "bound, nats"}
WIDTH, NAME, NUMBER = 100, 22, 16
MOST = 20  # experiments
MOST_NAMED = 6  # parameters


class RunSummary(NamedTuple):
    """Run in the table: its numbers, or the fault that prevents them."""

    name: str
    params: Mapping[str, Any]
    numbers: Mapping[str, str]
    fault: str


def main(argv: Sequence[str] | None = None) -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="annulus runs", description=__doc__)
    parser.add_argument(
        "--most", type=int, default=MOST, help=f"largest number of experiments, the newest first ({MOST})"
    )
    parser.add_argument("--to", type=Path, metavar="FILE", help="write all runs, also of the studies: .csv or .parquet")
    parser.add_argument("--root", type=Path, help="the repository; by default the one of the working directory")
    arguments = parser.parse_args(argv)
    if arguments.most < 1:
        raise InputError(f"--most {arguments.most} is below 1; name a number of experiments")
    check_folder("--to", arguments.to)
    root = arguments.root or repository(Path())
    experiment_commits = [(name, commit) for name, commits in experiments(root).items() for commit in commits]
    if arguments.to is not None:
        count = write_all_runs(root, [("HEAD", "HEAD"), (WORKSPACE, WORKSPACE), *experiment_commits], arguments.to)
        print(f"{arguments.to}: {count} runs")
        return
    table_rows = [(WORKSPACE, WORKSPACE), ("HEAD", "HEAD"), *experiment_commits[: arguments.most]]
    runs = [run_summary(name, side_files(root, commit)) for name, commit in table_rows]
    print(as_text(runs))
    if hidden := len(experiment_commits) - len(runs) + 2:
        print(f'\n{hidden} older experiments are not shown: make runs ARGS="--most {len(experiment_commits)}"')
    print("\nmake compare BASE=HEAD HEAD=NAME puts one beside another, with the interval of each difference")


def run_summary(name: str, files: RevisionFiles) -> RunSummary:
    """Parameters and headline numbers of a run; an unreadable run has a fault in place of numbers."""
    params: Mapping[str, Any] = {}
    try:
        params = flat(read_yaml(files, "params.yaml"))
        if clauses := stale(files):
            return RunSummary(name, params, {}, f"not run: {clauses[0]}")
        return RunSummary(name, params, _numbers(parse_json(files.text("metrics/summary.json"))), "")
    except (LookupError, ValueError) as error:
        return RunSummary(name, params, {}, f"no numbers: {' '.join(str(error.args[0]).split())[:150]}")


def as_text(runs: Sequence[RunSummary]) -> str:
    """Table of the runs, with the parameters that differ from HEAD, the second run."""
    room = WIDTH - NAME - len(SHOWN) * (NUMBER + 1) - 1
    heads = "".join(f"{label:>{NUMBER + 1}}" for label in SHOWN.values())
    lines = [f"{'run':<{NAME}} {'differs from HEAD in':<{room}}{heads}"]
    for run in runs:
        beside = run.fault or _differences(run.params, runs[1].params)
        wrapped = textwrap.wrap(beside, WIDTH - NAME - 1 if run.fault else room, break_long_words=False) or [""]
        if len(wrapped[0]) > room and not run.fault:  # a key is whole, below the numbers
            wrapped.insert(0, "")
        numbers = "".join(f"{run.numbers.get(number, ''):>{NUMBER + 1}}" for number in SHOWN)
        name = run.name if len(run.name) <= NAME else f"{run.name[: NAME - 1]}…"
        lines.append(f"{name:<{NAME}} {wrapped[0]:<{room}}{numbers}".rstrip())
        lines += [f"{'':<{NAME}} {line}" for line in wrapped[1:]]
    return "\n".join(lines)


def _differences(params: Mapping[str, Any], base: Mapping[str, Any]) -> str:
    keys = sorted(params.keys() | base.keys(), key=lambda key: (key not in SELECTOR_SECTIONS, "." in key, key))
    differences = [f"{key}={params.get(key)}" for key in keys if params.get(key) != base.get(key)]
    more = [f"and {len(differences) - MOST_NAMED} more"] if len(differences) > MOST_NAMED else []
    return " ".join([*differences[:MOST_NAMED], *more])


def _numbers(summary: Any) -> dict[str, str]:
    """Numbers as text, with half of the interval if the summary has one."""
    if not isinstance(summary, dict):
        raise ValueError("metrics/summary.json holds no numbers by name")
    cells = {}
    for number in SHOWN:
        if number not in summary and number != "bound_nats":
            continue  # of images without classes
        half = number.replace("_percent", "_interval_percent")
        cells[number] = f"{finite(summary.get(number), number):.{digits(number)}f}"
        if half != number and half in summary:
            cells[number] += f" ± {finite(summary[half], half):.2f}"
    return cells
