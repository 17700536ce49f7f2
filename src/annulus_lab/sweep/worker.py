"""Worker: takes trials until every trial has a worker.

A trial's lock in the store names its worker, so no process has to distribute the trials. Workers of two sweeps, also on
several machines, take different trials. A trial whose worker was killed is free again, with its last state. A worker
writes notes to the sweep's folder:

    begun-TRIAL-JOB   empty
    done-TRIAL        seconds
    failed-TRIAL      a sentence; the sweep's workers leave the trial alone
"""

import logging
import signal
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from submitit import JobEnvironment
from submitit.core.utils import UncompletedJobError
from submitit.helpers import Checkpointable

from annulus.errors import InputError
from annulus.files.results import write_text
from annulus.running import progress
from annulus.running.checkpoint import LockedError
from annulus.running.end import end_with
from annulus.running.workers import compute_with
from annulus_lab.studies.shared.runs import Trial, Trials, load_splits
from annulus_lab.studies.shared.store import CachedRun

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class StudyRun:
    """One run of a study; `images` is the folder of its images."""

    name: str
    images: Path
    trial: Trial
    cached: CachedRun


class Worker(Checkpointable):
    """Callable that submitit runs. A requeued Slurm job begins again, and continues the trial that it had begun."""

    def __init__(self, notes: Path, jobs: Sequence[StudyRun], sweep: int | None) -> None:
        """`sweep`: process on the same machine whose end also ends the worker; None: none."""
        self.notes, self.jobs, self.sweep = notes, jobs, sweep

    def __call__(self) -> None:
        if self.sweep is not None:
            end_with(self.sweep)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # submitit ignores it, since Slurm sends it in advance
        logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
        compute_with(threads=1)
        runs = {folder: Trials(load_splits(folder)) for folder in {job.images for job in self.jobs}}
        if any(runs[job.images].cached(job.trial).name != job.cached.name for job in self.jobs):
            raise InputError("the code or the images were edited after the sweep began; start the sweep again")
        while sum(self._take(number, job, runs[job.images]) for number, job in enumerate(self.jobs)):
            pass  # another pass: a locked trial may be free now

    def _take(self, number: int, job: StudyRun, runs: Trials) -> bool:
        """Trains a job and returns True; returns False if the job is done, has failed, or another worker holds it."""
        cached = runs.cached(job.trial)
        if self._is_over(number, cached):
            return False
        try:
            with cached.checkpoint:
                if self._is_over(number, cached):  # meanwhile
                    return False
                self._train(number, job, runs, cached)
        except LockedError:
            return False
        return True

    def _is_over(self, number: int, cached: CachedRun) -> bool:
        return cached.read() is not None or (self.notes / f"failed-{number}").exists()

    def _train(self, number: int, job: StudyRun, runs: Trials, cached: CachedRun) -> None:
        write_text(self.notes / f"begun-{number}-{JobEnvironment().job_id}", "")
        progress.begin(job.name, progress.Display().show)
        start = time.monotonic()
        try:
            runs.train(job.trial, cached)
        except UncompletedJobError:  # Slurm's time is over
            raise
        except Exception as error:  # the other jobs go on
            log.error("%s", traceback.format_exc())
            sentence = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            write_text(self.notes / f"failed-{number}", sentence)
        else:
            write_text(self.notes / f"done-{number}", f"{time.monotonic() - start:.3f}")
