"""Runs of further encoders, and the rows of their table."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from annulus.errors import InputError
from annulus.evals.intervals import verdict
from annulus.files.regular import read_text
from annulus.files.results import Number, write_text
from annulus_lab.studies.detection.detected import DetectorRuns, gain, names, precision
from annulus_lab.studies.shared.outcomes import by_seed, with_interval
from annulus_lab.studies.shared.study import Settings

NUMBERS = ("ap", "resampled")  # of a run, that are kept
GAINS = ("percent", "interval_percent", "verdict")


def write_runs(path: Path, runs: Mapping[str, DetectorRuns]) -> None:
    """Writes the runs of one encoder on each task: average precision, and that of each draw of the pictures."""
    kept = {
        task: {seed: {name: run[name] for name in NUMBERS} for seed, run in own.items()} for task, own in runs.items()
    }
    write_text(path, json.dumps(kept, allow_nan=False) + "\n")


def read_runs(path: Path) -> dict[str, DetectorRuns]:
    """Reads what `write_runs` wrote.

    Raises:
        InputError: when the file holds anything else.
    """
    try:
        content = json.loads(read_text(path))
        return {task: {int(seed): run for seed, run in own.items()} for task, own in content.items()}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} holds no runs of an encoder ({error}); run `dvc repro`") from error


def further_rows(
    folder: Path, tasks: Mapping[str, Settings], encoders: Sequence[Settings]
) -> Iterator[dict[str, Number]]:
    """Row for each task, further encoder, base and number; without encoders that have not run.

    Raises:
        InputError: when an encoder has run, and its base has not.
    """
    named = {one["encoder"]: one for one in encoders}
    runs = {name: read_runs(file) for name in named if (file := folder / f"{name}.json").exists()}
    for name in runs:
        if lacking := [base for base in named[name]["bases"] if base not in runs]:
            stages = " ".join(f"further@encoder{list(named).index(base)}" for base in lacking)
            raise InputError(f"{folder} has {name} and not {', '.join(lacking)}, its base; run `dvc repro {stages}`")
    for task, settings in tasks.items():
        for name in runs:
            for base in named[name]["bases"] or [None]:
                own = named[name] | {"base": base or ""}
                yield from _rows(task, settings, own, runs[name][task], None if base is None else runs[base][task])


def _rows(
    task: str, settings: Settings, one: Settings, runs: DetectorRuns, base: DetectorRuns | None
) -> Iterator[dict[str, Number]]:
    for name in sorted(names({"encoder": runs} if base is None else {"encoder": runs, "base": base})):
        number = name.removesuffix("_percent")
        row: dict[str, Number] = {"task": task, "number": number, "cell": f"{task} {number}"}
        row |= {name: one[name] for name in ("encoder", "algorithm", "study", "base")}
        row |= with_interval("ap_percent", precision(runs, name))
        if base is None:
            row |= {f"over_base_{part}": "" for part in GAINS}
        else:
            above = gain(runs, base, name)
            row |= with_interval("over_base_percent", above) | {"over_base_verdict": verdict(above, unit=" points")}
        row |= {name: settings[name] for name in ("configuration", "engine", "scale")}
        row |= {"dataset": one["dataset"], "seeds": len(runs)}
        yield row | by_seed("ap_percent", {seed: run["ap"][name] for seed, run in runs.items()})
