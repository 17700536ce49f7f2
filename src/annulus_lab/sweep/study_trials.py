"""Lists the trials of a study from the settings of its stages. The settings name the scripts that read them."""

import fcntl
import functools
import importlib.util
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from annulus.device.device import pick_device
from annulus.errors import InputError, nearest
from annulus.files.images import load_images
from annulus.running.checkpoint import hash_images, not_written
from annulus_lab.config.resolved import read_settings
from annulus_lab.pipeline.edited import STAGES
from annulus_lab.pipeline.projects import repro, study_names
from annulus_lab.studies.shared.information import check_pairs
from annulus_lab.studies.shared.runs import Trial, TrialCode, run_name
from annulus_lab.studies.shared.store import CachedRun
from annulus_lab.sweep.worker import StudyRun

log = logging.getLogger("annulus")

TrialsFunction = Callable[
    [Mapping[str, Any]], Mapping[Any, Trial]
]  # a script's function: settings -> the stage's trials


def read_trials(study: str, rows: Sequence[str]) -> list[StudyRun]:
    """Trials that `dvc repro` would run for these rows (none: for all), each once. Makes the images first.

    Raises:
        InputError: when a study or row does not exist, or DVC cannot make the settings and the images.
    """
    name, known = Path(study).name, study_names(Path())
    if name not in known:
        study_list = ", ".join(known) or "none here; run it in the repository's root"
        raise InputError(f"there is no study {name!r}{nearest(name, known)} (studies: {study_list})")
    folder = Path("stages", name)
    _make(folder, "settings")
    files = sorted((folder / "data/settings").rglob("*.json"))
    settings = {_row(file): content for file in files if _runs(content := read_settings(file))}
    if not settings:
        raise InputError(f"no stage of {name} trains runs that a sweep could distribute; `{repro(name)}` runs it")
    for row in rows:
        if row not in settings:
            raise InputError(f"{name} has no row {row!r}{nearest(row, settings)} (rows: {', '.join(settings)})")
    _make(folder, "images")
    row_names = list(rows or settings)
    changed_rows = _changed_rows(folder, row_names)
    if len(changed_rows) < len(row_names):
        log.info(
            "%d of %d rows: DVC has their results, nothing to do", len(row_names) - len(changed_rows), len(row_names)
        )
    images = folder / "data/images"
    trials = [trial for row in changed_rows for trial in _trials(row, settings[row], images)]
    return list({trial.cached.name: trial for trial in trials}.values())


@contextmanager
def alone(lock: Path) -> Iterator[None]:
    """Lets one sweep at a time call DVC; another sweep waits.

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


def _dvc(folder: Path, *words: str, **options: Any) -> subprocess.CompletedProcess:
    python = Path(sys.executable).parent  # so that the stage's `python` is this one
    environment = {**os.environ, "PATH": os.pathsep.join([str(python), os.environ.get("PATH", "")])}
    return subprocess.run([sys.executable, "-m", "dvc", *words], cwd=folder, env=environment, **options)


def _make(folder: Path, stage: str) -> None:
    """Runs a stage if it has changed. DVC refuses to write files that a training of the folder reads."""
    if _status(folder, stage) != {} and _dvc(folder, "repro", "-q", stage).returncode:
        raise InputError(f"`cd {folder} && dvc repro {stage}` fails; mend what it says above")


def _changed_rows(folder: Path, rows: Sequence[str]) -> list[str]:
    """Rows that `dvc repro` would run; all rows if DVC gives no status, while another `dvc repro` writes."""
    if (status := _status(folder)) is None:
        return list(rows)
    stages = {stage.partition("@")[2] for stage in status}
    return [row for row in rows if row in stages]


def _status(folder: Path, *stages: str) -> dict[str, Any] | None:
    """Changes by stage; None if DVC gives no status."""
    process = _dvc(folder, "status", "--json", *stages, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return None if process.returncode else json.loads(process.stdout)


def _row(file: Path) -> str:
    """Name after the @ of the stage that reads a file of settings: `MoCo-0` for data/settings/rows/MoCo/0.json."""
    parts = file.with_suffix("").parts
    return "-".join(parts[parts.index("settings") + 2 :])


def _runs(settings: Mapping[str, Any]) -> TrialsFunction | None:
    """Function `runs` of the script that reads these settings, or None."""
    return _script_runs(settings["script"])


@functools.cache
def _script_runs(name: str) -> TrialsFunction | None:
    spec = importlib.util.spec_from_file_location(f"stages.{name}", STAGES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, "runs", None)


def _trials(row: str, settings: Mapping[str, Any], images: Path) -> list[StudyRun]:
    hashes, code, device = hash_images(images), TrialCode(), pick_device()
    runs = _runs(settings)(settings)
    if pairs := max((trial.held_out_pairs or 0 for trial in runs.values()), default=0):
        check_pairs(pairs, load_images(images / "test.safetensors"))
    return [
        StudyRun(
            f"{row}, {run_name(key)}", images.absolute(), trial, CachedRun(trial, hashes, code.hashes(trial), device)
        )
        for key, trial in runs.items()
    ]
