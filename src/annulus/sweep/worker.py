"""A worker: takes one trial after the other, until none is left that nobody works at.

A trial's lock in the store says who works at it, so workers need no one to share trials out: those of two sweeps, on
several machines, take different ones, and a trial whose worker was killed is free again, with its last state. What a
worker does it notes in the sweep's folder:

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
from annulus.running.checkpoint import Held
from annulus.running.workers import compute_with, end_with
from annulus.studies.runs import Trial, Trials, load_splits
from annulus.studies.store import Place

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class StudyRun:
    """One run of a study; `images` is the folder of its images."""

    name: str
    images: Path
    trial: Trial
    place: Place


class Worker(Checkpointable):
    """What submitit runs; a Slurm job that is requeued begins again, and goes on with the job that it was at."""

    def __init__(self, notes: Path, jobs: Sequence[StudyRun], sweep: int | None) -> None:
        """`sweep` is the process to end with, when it is on the same machine."""
        self.notes, self.jobs, self.sweep = notes, jobs, sweep

    def __call__(self) -> None:
        if self.sweep is not None:
            end_with(self.sweep)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)  # submitit ignores it, as Slurm sends it in advance
        logging.basicConfig(level=logging.INFO, format="%(message)s", force=True)
        compute_with(threads=1)
        runs = {folder: Trials(load_splits(folder)) for folder in {job.images for job in self.jobs}}
        if any(runs[job.images].place(job.trial).name != job.place.name for job in self.jobs):
            raise InputError("the code or the images were edited after the sweep began; start the sweep again")
        while sum(self._take(number, job, runs[job.images]) for number, job in enumerate(self.jobs)):
            pass  # another pass: what was held then may be free now

    def _take(self, number: int, job: StudyRun, runs: Trials) -> bool:
        """Whether this worker did the job: not where it is done, where it failed, and where another one is at it."""
        place = runs.place(job.trial)
        if self._over(number, place):
            return False
        try:
            with place.checkpoint:
                if self._over(number, place):  # since
                    return False
                self._train(number, job, runs, place)
        except Held:
            return False
        return True

    def _over(self, number: int, place: Place) -> bool:
        return place.read() is not None or (self.notes / f"failed-{number}").exists()

    def _train(self, number: int, job: StudyRun, runs: Trials, place: Place) -> None:
        note(self.notes / f"begun-{number}-{JobEnvironment().job_id}", "")
        progress.begin(job.name, progress.Shown().show)
        started = time.monotonic()
        try:
            runs.train(job.trial, place)
        except UncompletedJobError:  # Slurm's time is over
            raise
        except Exception as error:  # the other jobs go on
            log.error("%s", traceback.format_exc())
            said = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
            note(self.notes / f"failed-{number}", said)
        else:
            note(self.notes / f"done-{number}", f"{time.monotonic() - started:.3f}")


def note(path: Path, text: str) -> None:
    """Write a note, whole."""
    write_text(path, text)
