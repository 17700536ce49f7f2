"""Lists the trials of a study from its DVC stages and their scripts."""

import fcntl
import importlib.util
import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annulus.config.resolved import read_settings
from annulus.device.device import pick_device
from annulus.errors import InputError, nearest
from annulus.files.images import load_images
from annulus.running.checkpoint import hash_images, not_written
from annulus.studies.information import check_pairs
from annulus.studies.runs import Trial, TrialCode, run_name
from annulus.studies.store import CachedRun
from annulus.sweep.stages import Stage, read_stages
from annulus.sweep.worker import StudyRun

PREPARED = ("settings", "images")  # the stages whose outputs a trial reads

log = logging.getLogger("annulus")

Runs = Callable[[Mapping[str, Any]], Mapping[Any, Trial]]  # a script's function: settings -> the stage's trials


def read_trials(study: Path, rows: Sequence[str]) -> list[StudyRun]:
    """Trials that `dvc repro` would run for the given rows (none: for all), each once. Makes the images first.

    Raises:
        InputError: when there is no such study or row, or DVC cannot make the settings and the images.
    """
    pipeline = study / "dvc.yaml"
    known = [path.parent.as_posix() for path in sorted(Path("stages").glob("*/dvc.yaml"))]
    if study.as_posix() not in known:
        listed = ", ".join(known) or "none here; run it in the repository's root"
        raise InputError(f"{study} is no study{nearest(study.as_posix(), known)} (studies: {listed})")
    stages = read_stages(pipeline, lambda name: name in PREPARED)
    trained = {_row(stage): stage for stage in stages if _runs_of(stage) is not None}
    if not trained:
        raise InputError(
            f"no stage of {study} trains runs that a sweep could share out; `dvc repro {pipeline}` runs it"
        )
    for row in rows:
        if row not in trained:
            raise InputError(f"{study} has no row {row!r}{nearest(row, trained)} (rows: {', '.join(trained)})")
    prepared = {stage.changed for stage in stages if stage.name in PREPARED}
    if None in prepared:
        raise InputError(f"another dvc command makes {pipeline}'s images; wait for its end, then run again")
    if True in prepared:
        _repro(f"{pipeline}:images")
    names = {trained[row].name for row in rows or trained}
    asked = {_row(stage): stage for stage in read_stages(pipeline, names.__contains__) if stage.name in names}
    changed = {row: stage for row, stage in asked.items() if stage.changed is not False}  # what runs now is shared
    if len(changed) < len(asked):
        log.info("%d of %d rows: DVC has their results, nothing to do", len(asked) - len(changed), len(asked))
    trials = [trial for row, stage in changed.items() for trial in _trials(row, stage)]
    return list({trial.cached.name: trial for trial in trials}.values())


def _repro(target: str) -> None:
    python = Path(sys.executable).parent  # the stage's own `python` is this one
    path = os.pathsep.join([str(python), os.environ.get("PATH", "")])
    done = subprocess.run([sys.executable, "-m", "dvc", "repro", target], env={**os.environ, "PATH": path})
    if done.returncode:
        raise InputError(f"the study's images cannot be made; mend what `dvc repro {target}` says above")


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """One sweep at a time, while it asks DVC; another one waits.

    Raises:
        InputError: when the file cannot be written, or its file system has no locks.
    """
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = lock.open("wb")
        fcntl.flock(file, fcntl.LOCK_EX)
    except OSError as error:
        raise not_written(lock, error) from error
    with file:
        yield


def _trials(row: str, stage: Stage) -> list[StudyRun]:
    _, options = _command(stage)
    images, code = Path(options["--images"]), TrialCode()
    hashes, runs = hash_images(images), _runs_of(stage)(read_settings(Path(options["--settings"])))
    if pairs := max((trial.held_out_pairs or 0 for trial in runs.values()), default=0):
        check_pairs(pairs, load_images(images / "test.safetensors"))
    device = pick_device()
    return [
        StudyRun(f"{row}, {run_name(key)}", images.absolute(), trial, CachedRun(trial, hashes, code.of(trial), device))
        for key, trial in runs.items()
    ]


def _row(stage: Stage) -> str:
    return stage.name.partition("@")[2]


def _command(stage: Stage) -> tuple[Path, dict[str, str]]:
    """The script of `python stages NAME --option value ...`, and its options."""
    _, folder, name, *words = shlex.split(stage.command)
    return Path(folder) / f"{name}.py", dict(zip(words[::2], words[1::2], strict=True))


def _runs_of(stage: Stage) -> Runs | None:
    """The script's function `runs`, which lists what its stage trains, or None if it has none."""
    script, _ = _command(stage)
    spec = importlib.util.spec_from_file_location(f"stages.{script.stem}", script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "runs", None)
