"""Context of the numbers: commit, experiment, parameters, studies, machine and time of every stage's last run here."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.running.checkout import git
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.file import load_params
from annulus_lab.config.params import plain
from annulus_lab.config.sections import SELECTOR_SECTIONS
from annulus_lab.config.tree import read_tree
from annulus_lab.pipeline.provenance import StageRecord, stage_records
from annulus_lab.pipeline.revision import workspace
from annulus_lab.pipeline.stale import stale

# Sections without a selector.
PLAIN_SECTIONS = ("optimizer", "knn", "linear", "map")

OTHER_NUMBERS = "of another run or from git"


@dataclass(frozen=True)
class StudySetting:
    """Scale, data set and seeds of a study's params.yaml, or its fault."""

    name: str
    scale: str = ""
    dataset: str = ""
    seeds: str = ""
    fault: str = ""


@dataclass(frozen=True)
class StageRun:
    """The last runs here of a stage; the runs of a matrix share one line."""

    stage: str
    runs: int
    end: str  # of the last run, UTC
    seconds: float  # sum of all runs
    machine: str
    torch: str
    commit: str
    experiment: str
    numbers: str  # source of the numbers in metrics/: these runs or others


@dataclass(frozen=True)
class Context:
    """Head of the report.

    `faults`: sentences about files that cannot be read. `outdated`: sentences about metrics of the main line that were
    made with other parameters or code.
    """

    time: str
    commit: str | None
    changed_files: int  # since the commit
    experiment: str | None
    choices: dict[str, str]
    parameters: dict[str, str]
    studies: list[StudySetting]
    stages: list[StageRun]
    faults: list[str]
    outdated: list[str]


def context(root: Path, now: datetime) -> Context:
    """Returns the context of the numbers in a checkout."""
    choices, parameters, faults = {}, {}, []
    try:
        params = load_params(root / "params.yaml")
        choices = _flat(
            {name: value for name, value in params if name not in (*SELECTOR_SECTIONS.values(), *PLAIN_SECTIONS)}
        )
        parameters = _parameters(params)
    except InputError as error:
        faults.append(_within(root, str(error)))
    records = stage_records(root)
    commit = git("rev-parse", "--verify", "-q", "HEAD", folder=root)
    return Context(
        time=_utc(now.timestamp()),
        commit=commit,
        changed_files=len((git("status", "--porcelain", folder=root) or "").splitlines()) if commit else 0,
        experiment=os.environ.get("DVC_EXP_NAME") or _experiment(records, root),
        choices=choices,
        parameters=parameters,
        studies=[_study(root, path) for path in sorted(root.glob("stages/*/params.yaml"))],
        stages=_stages(records, root),
        faults=faults,
        outdated=outdated(root),
    )


def outdated(root: Path) -> list[str]:
    """Returns a sentence for each way the main line's metrics differ from its parameters and code, by dvc.lock."""
    if not (root / "dvc.lock").exists():
        return []
    try:
        return [f"The main line's {clause}; run `dvc repro`" for clause in stale(workspace(root))]
    except InputError as error:
        return [_within(root, str(error))]


def _parameters(params: AllParams) -> dict[str, str]:
    """Returns the selected sections and those without a selector, as `samplers.ring.outer: 0.1`."""
    sections = {
        f"{section}.{getattr(params, name)}": params.get(f"{section}.${{{name}}}")
        for name, section in SELECTOR_SECTIONS.items()
    }
    return _flat(sections | {section: getattr(params, section) for section in PLAIN_SECTIONS})


def _flat(tree: Mapping[str, Any], above: str = "") -> dict[str, str]:
    flat = {}
    for key, value in tree.items():
        value = plain(value)
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{above}{key}.")
        else:
            flat[f"{above}{key}"] = "none" if value is None else str(value)
    return flat


def _study(root: Path, path: Path) -> StudySetting:
    name = path.parent.name
    try:
        tree = read_tree(path)
    except InputError as error:
        return StudySetting(name, fault=_within(root, str(error)))
    defaults, seeds = tree.get("defaults"), tree.get("seeds")
    dataset = defaults.get("dataset") if isinstance(defaults, dict) else None
    seed_text = ", ".join(map(str, seeds)) if isinstance(seeds, list) else str(seeds or "")
    return StudySetting(name, str(tree.get("scale") or ""), str(dataset or ""), seed_text)


def _stages(records: list[StageRecord], root: Path) -> list[StageRun]:
    """Returns one line per stage, sorted by end."""
    together: dict[str, list[StageRecord]] = {}
    for run in sorted(records, key=lambda run: run.started + run.seconds):
        together.setdefault(run.stage.partition("@")[0], []).append(run)
    return [_line(stage, group, root) for stage, group in together.items()]


def _line(stage: str, group: list[StageRecord], root: Path) -> StageRun:
    last = group[-1]
    with_files = [run for run in group if run.files]
    here = sum(run.matches(root) for run in with_files)
    if not with_files:
        numbers = "it writes no metrics"
    elif here == len(with_files):
        numbers = "of this run" if len(group) == 1 else "of these runs"
    else:
        numbers = OTHER_NUMBERS if here == 0 else f"{here} of {len(with_files)} of these runs"
    return StageRun(
        stage=stage,
        runs=len(group),
        end=_utc(last.started + last.seconds),
        seconds=sum(run.seconds for run in group),
        machine=_join(_machine(run) for run in group),
        torch=_join(run.torch or "" for run in group),
        commit=_join((run.commit or "")[:10] for run in group),
        experiment=_join(run.experiment or "" for run in group),
        numbers=numbers,
    )


def _machine(run: StageRecord) -> str:
    gpus = [f"{run.gpus.count(name)} {name}" for name in dict.fromkeys(run.gpus)]
    return ", ".join([f"{run.processor}, {run.cores} cores", *gpus])


def _join(texts: Any) -> str:
    """Joins the different texts, once each."""
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _experiment(records: list[StageRecord], root: Path) -> str | None:
    """Returns the experiment of the main line's numbers here; None if they are of none or several."""
    runs = [run for run in records if run.files and ":" not in run.stage and run.matches(root)]
    if all(run.stage != "summary" for run in runs):  # `annulus restore` leaves an experiment's files in data/
        return None
    names = {run.experiment for run in runs}
    references = (git("for-each-ref", "--format=%(refname)", "refs/exps", folder=root) or "").splitlines()
    names &= {ref.rpartition("/")[2] for ref in references}  # an experiment that was killed has no reference
    return names.pop() if len(names) == 1 else None


def _utc(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def _within(root: Path, sentence: str) -> str:
    """Removes the path of the checkout from a sentence."""
    return sentence.replace(f"{root}/", "")
