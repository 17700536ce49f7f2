"""Watches a sweep from its first worker to its last trial."""

import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from submitit import Job
from tqdm import tqdm

from annulus.errors import InputError
from annulus.files.results import write_text
from annulus_lab.sweep.places import Executor
from annulus_lab.sweep.worker import StudyRun, Worker

LOOK_SECONDS = 0.5
REFUSED_SECONDS = 60.0  # between a refused job and the next try on a cluster
MOST_KILLS = 3  # of workers at the same trial, or before any trial

log = logging.getLogger("annulus")


class Watch:
    """Starts workers, reports finished trials, and replaces killed workers."""

    def __init__(self, trials: Sequence[StudyRun], notes: Path, executor: Executor, sweep: int | None) -> None:
        self.trials, self.notes, self.executor = trials, notes, executor
        self.worker = Worker(notes, trials, sweep)
        self.first = dict(enumerate(map(_write_time, trials)))  # an unreadable outcome counts as missing
        self.open = {number: trial for number, trial in enumerate(trials) if trial.cached.read() is None}
        self.slots = executor.slots(len(self.open))
        self.jobs: dict[int, Job] = {}  # by slot
        self.ask_at = 0.0  # on the monotonic clock: the next time to start workers
        self.kills: Counter[int | None] = Counter()  # by trial; None: before any
        self.seconds = 0.0  # of the trials that this sweep's workers finished
        self.failed: list[str] = []
        done, quiet = len(trials) - len(self.open), not sys.stderr.isatty()
        self.bar = tqdm(total=len(trials), initial=done, unit=" trials", leave=False, disable=quiet)

    def run(self) -> None:
        """Runs until every trial is done or has failed, and then ends the workers, also after an error.

        Raises:
            InputError: when workers end before they take a trial, or none can be started.
        """
        try:
            while self._look():
                self._start()
                time.sleep(LOOK_SECONDS)
                self._bury()
        finally:
            self.bar.close()
            self.executor.stop([job for job in self.jobs.values() if not _has_ended(job)])

    def _look(self) -> bool:
        """Reports trials that have ended, in any sweep; returns True if others are left."""
        notes = {path.name for path in self.notes.iterdir()}
        for number, trial in list(self.open.items()):
            done = self.notes / f"done-{number}"
            if f"failed-{number}" in notes:
                why = (self.notes / f"failed-{number}").read_text(encoding="utf-8")
                self.failed.append(f"{trial.name}: {why}")
                self._over(number, f"failed: {why}")
            elif done.name in notes:
                seconds = float(done.read_text(encoding="utf-8"))
                self.seconds += seconds
                self._over(number, f"done in {seconds:.0f} s")
            elif (
                _write_time(trial) not in (None, self.first[number])
                and not trial.cached.checkpoint.held()
                and not done.exists()
            ):
                self._over(number, "done by another process")
        return bool(self.open)

    def _over(self, number: int, result: str) -> None:
        trial = self.open.pop(number)
        del self.kills[None]  # workers can work here: earlier kills between trials no longer count
        self.bar.update()
        self._print_line(f"{trial.name}: {result} ({len(self.trials) - len(self.open)} of {len(self.trials)})")

    def _print_line(self, line: str) -> None:
        if self.bar.disable:
            log.info("%s", line)
        else:
            self.bar.write(line, file=sys.stderr)

    def _bury(self) -> None:
        """Records jobs that have ended, and the trials of killed jobs."""
        for slot, job in list(self.jobs.items()):
            if not job.done():
                if self.executor.is_preempted(job):
                    self._free_slot(slot, job)
                continue
            del self.jobs[slot]
            tasks = [job.task(number) for number in range(job.num_tasks)]
            killed = [task for task in tasks if not task.paths.result_pickle.exists()]
            errors = [error for task in tasks if task not in killed and (error := task.exception()) is not None]
            if errors:
                raise InputError(f"a worker ended: {_last_error(str(errors[0]))}")
            if killed:
                self._killed(job, killed[0].paths.stderr)

    def _free_slot(self, slot: int, job: Job) -> None:
        """Frees the slot, and counts no kill, since the trial did not cause it."""
        self.executor.stop([job])  # Slurm may have requeued it, and a slot has one job
        del self.jobs[slot]
        for number in self._begun_trials(job):
            self._print_line(f"{self.trials[number].name}: its worker was preempted; another worker continues")

    def _killed(self, job: Job, stderr: Path) -> None:
        for number in self._begun_trials(job) or [None]:
            self.kills[number] += 1
            kills, last = self.kills[number], f"its last words are in {stderr}"
            if number is None and kills >= MOST_KILLS:
                raise InputError(f"{kills} workers were killed before they took a trial; {last}")
            if number is not None and kills >= MOST_KILLS:
                write_text(self.notes / f"failed-{number}", f"{kills} workers were killed at it; {last}")
            elif number is not None:
                self._print_line(f"{self.trials[number].name}: its worker was killed; another worker continues")

    def _start(self) -> None:
        """Starts workers: at most one per slot and per trial without a worker.

        Raises:
            InputError: when the executor refuses them and no other is at work.
        """
        idle = [slot for slot in range(self.slots) if slot not in self.jobs]
        if not idle or time.monotonic() < self.ask_at:
            return
        busy = sum(len(self._begun_trials(job)) for job in self.jobs.values())
        free = sum(not trial.cached.checkpoint.held() for trial in self.open.values())
        looking = len(self.jobs) * self.executor.tasks - busy  # each of these workers takes one of the free trials
        missing = -(-(free - looking) // self.executor.tasks)
        if missing > 0:
            slots = idle[:missing]
            try:
                self.jobs |= zip(slots, self.executor.start(self.worker, slots), strict=True)
            except InputError as error:
                if not self.jobs:
                    raise
                self.ask_at = time.monotonic() + REFUSED_SECONDS  # for example, a busy Slurm does not answer
                self._print_line(f"WARNING: {error}; the present workers go on, and the sweep tries again in a minute")

    def _begun_trials(self, job: Job) -> list[int]:
        """Unfinished trials that workers of a job have begun."""
        return [number for number in self.open if (self.notes / f"begun-{number}-{job.job_id}").exists()]


def _write_time(trial: StudyRun) -> int | None:
    """Time of the trial's outcome file in nanoseconds, or None."""
    try:
        return trial.cached.file.stat().st_mtime_ns
    except FileNotFoundError:
        return None


def _has_ended(job: Job) -> bool:
    """Returns True if the job has ended; False also for an unknown state, so that the watch ends the job."""
    try:
        return job.done()
    except Exception:  # submitit raises many kinds, by the cluster's answer
        return False


def _last_error(text: str) -> str:
    """Exception in submitit's text: the last line of the traceback that it quotes."""
    return text.split("-" * 22)[1].strip().splitlines()[-1]
