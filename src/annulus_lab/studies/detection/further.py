"""Runs of further encoders, and the rows of their tables."""

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

NUMBERS = ("ap", "resampled")  # numbers of a run that its file keeps

EncoderRuns = Mapping[str, DetectorRuns]  # of one encoder, by task


def write_runs(path: Path, runs: EncoderRuns) -> None:
    """Writes the runs of one encoder on each task: average precision on the pictures and on each draw of them."""
    kept = {
        task: {seed: {name: run[name] for name in NUMBERS} for seed, run in own.items()} for task, own in runs.items()
    }
    write_text(path, json.dumps(kept, allow_nan=False) + "\n")


def read_runs(path: Path) -> EncoderRuns:
    """Reads a file of `write_runs`.

    Raises:
        InputError: when the file holds anything else.
    """
    try:
        content = json.loads(read_text(path))
        return {task: {int(seed): run for seed, run in own.items()} for task, own in content.items()}
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} holds no runs of an encoder ({error}); run `dvc repro`") from error


def runs_of_encoders(folder: Path, encoders: Sequence[Settings]) -> dict[str, EncoderRuns]:
    """Runs of each encoder that has run, in the list's order.

    Raises:
        InputError: when no encoder has run, or one has run without its base.
    """
    listed = [one["encoder"] for one in encoders]
    runs = {name: read_runs(file) for name in listed if (file := folder / f"{name}.json").exists()}
    if not runs:
        raise InputError(f"{folder} holds the runs of no further encoder; run `dvc repro`")
    for one in encoders:
        if one["encoder"] in runs and (lacking := [base for base in one["bases"] if base not in runs]):
            stages = " ".join(f"further@encoder{listed.index(base)}" for base in lacking)
            raise InputError(
                f"{folder} has {one['encoder']} and not {', '.join(lacking)}, its base; run `dvc repro {stages}`"
            )
    return runs


def precision_rows(tasks: Mapping[str, Settings], one: Settings, runs: EncoderRuns) -> Iterator[dict[str, Number]]:
    """Row for each task and number of an encoder: average precision, also of each seed."""
    for task, settings in tasks.items():
        for name in sorted(names(runs[task])):
            row = _place(task, name, one) | with_interval("ap_percent", precision(runs[task], name))
            row |= by_seed("ap_percent", {seed: run["ap"][name] for seed, run in runs[task].items()})
            yield row | _made(settings, one, runs[task])


def gain_rows(
    tasks: Mapping[str, Settings], one: Settings, base: str, runs: EncoderRuns, base_runs: EncoderRuns
) -> Iterator[dict[str, Number]]:
    """Row for each task and number of an encoder: its gain over a base, in pairs of a seed and a draw of pictures."""
    for task, settings in tasks.items():
        for name in sorted(names(runs[task], base_runs[task])):
            above = gain(runs[task], base_runs[task], name)
            row = _place(task, name, one) | {"base": base} | with_interval("gain_percent", above)
            yield row | {"gain_verdict": verdict(above, unit=" points")} | _made(settings, one, runs[task])


def _place(task: str, name: str, one: Settings) -> dict[str, Number]:
    number = name.removesuffix("_percent")
    own = {name: one[name] for name in ("encoder", "algorithm", "study")}
    return {"task": task, "number": number, "cell": f"{task} {number}"} | own


def _made(settings: Settings, one: Settings, runs: DetectorRuns) -> dict[str, Number]:
    own = {name: settings[name] for name in ("configuration", "engine", "scale")}
    return own | {"dataset": one["dataset"], "seeds": len(runs)}
