"""Executors of workers: processes of this machine, or jobs of a Slurm array. submitit starts and follows them."""

import math
import os
import shlex
import shutil
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import submitit
import torch
from submitit.core.utils import FailedJobError
from submitit.slurm.slurm import SlurmInfoWatcher

from annulus.device.device import gpu_names
from annulus.device.threads import cores
from annulus.errors import InputError, nearest
from annulus_lab.sweep.worker import Worker

YEAR_MINUTES = 366 * 24 * 60
SLURM_MINUTES = 4 * 60  # of a job; Slurm requeues a job whose time is over, and it continues
REQUEUES = 10_000
SACCT_SECONDS = 60  # for sacct's first answer
STATES_SECONDS = 600  # longest time between two calls of sacct: submitit's own


class Executor(ABC):
    """Starts jobs, each of `tasks` workers."""

    tasks: int

    @abstractmethod
    def slots(self, trials: int) -> int:
        """Largest number of simultaneous jobs for this number of trials."""

    @abstractmethod
    def start(self, worker: Worker, slots: Sequence[int]) -> Sequence[submitit.Job]:
        """Starts a job in each of the slots.

        Raises:
            InputError: when Slurm refuses them.
        """

    @abstractmethod
    def stop(self, jobs: Sequence[submitit.Job]) -> None:
        """Ends jobs at once."""

    def is_preempted(self, job: submitit.Job) -> bool:
        """Returns True for an unfinished job whose place Slurm gave to another job."""
        return False


class Local(Executor):
    """Workers on this machine: one per core on a CPU; on GPUs by the share of a GPU that each worker has."""

    tasks = 1

    def __init__(self, folder: Path, workers: int | None, gpus_per_worker: float | None) -> None:
        """
        Raises:
            InputError: when the workers need more GPUs than there are.
        """
        gpus = torch.cuda.device_count()
        if gpus_per_worker and not gpus:
            raise InputError(f"--gpus-per-worker {gpus_per_worker:g}: torch finds no GPU here; leave it out")
        self.share = (1.0 if gpus else 0.0) if gpus_per_worker is None else gpus_per_worker
        places = gpus * math.floor(1 / self.share + 1e-6) if self.share else cores()  # whole workers of each GPU
        if self.share and workers is not None and workers > places:
            raise InputError(
                f"--workers {workers}, each with {self.share:g} of a GPU, are too many for {gpus} GPUs; take at most "
                f"{places}, or a smaller --gpus-per-worker"
            )
        self.places = places if workers is None else workers
        self.executor = submitit.LocalExecutor(folder)

    def slots(self, trials: int) -> int:
        return self.places

    def start(self, worker: Worker, slots: Sequence[int]) -> Sequence[submitit.Job]:
        return [self._start(worker, slot) for slot in slots]

    def _start(self, worker: Worker, slot: int) -> submitit.Job:
        self.executor.update_parameters(timeout_min=YEAR_MINUTES)
        names = gpu_names()  # in turn: few workers then do not share one GPU while another is idle
        task = partial(_on_gpu, names[slot % len(names)], worker) if self.share else worker
        # Ctrl-C reaches every process of the terminal. Only the sweep handles it, and then ends its workers.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return self.executor.submit(task)
        finally:
            signal.signal(signal.SIGINT, before)

    def stop(self, jobs: Sequence[submitit.Job]) -> None:
        for job in jobs:
            with suppress(ProcessLookupError):
                os.kill(int(job.job_id), signal.SIGTERM)  # submitit's process of the job forwards it
        for job in jobs:
            job.wait()


def _on_gpu(name: str, worker: Worker) -> None:
    """Runs a worker with this GPU only. submitit would set numbers, counted from the machine's first GPU."""
    os.environ["CUDA_VISIBLE_DEVICES"] = name
    worker()


class Slurm(Executor):
    """Workers in jobs of a Slurm array: one in each job, or with fractions of a GPU all that share one GPU."""

    def __init__(
        self, folder: Path, workers: int | None, gpus_per_worker: float | None, settings: Mapping[str, Any]
    ) -> None:
        """
        Raises:
            InputError: when Slurm's commands are missing or sacct fails; when submitit does not know or refuses a
                setting.
        """
        missing = [command for command in ("sbatch", "srun", "scancel", "sacct") if shutil.which(command) is None]
        if missing:
            raise InputError(
                f"--executor slurm: no {' and no '.join(missing)} here; run the sweep where jobs are submitted, or "
                "with --executor local"
            )
        _check_sacct()
        submitit.SlurmJob.watcher = States(delay_s=STATES_SECONDS)
        share = gpus_per_worker or 0.0
        self.tasks = max(1, math.floor(1 / share + 1e-6)) if share else 1
        self.workers = workers
        self.executor = submitit.SlurmExecutor(folder, max_num_timeout=REQUEUES)
        known = self.executor._valid_parameters()
        for key in settings:
            if key not in known:
                raise InputError(f"--slurm {key}=: unknown{nearest(key, known)} (known: {', '.join(sorted(known))})")
        if not isinstance(settings.get("time", 0), int):
            raise InputError(f"--slurm time={settings['time']}: not a number of minutes; write time=240")
        defaults = {
            "job_name": "annulus-sweep",
            "time": SLURM_MINUTES,
            "cpus_per_task": 1,
            "ntasks_per_node": self.tasks,
        }
        try:
            options = {key: _for_submitit(key, value) for key, value in settings.items()}
            self.executor.update_parameters(**defaults | ({"gpus_per_node": 1} if share else {}) | options)
        except (TypeError, ValueError) as error:
            options_text = " ".join(f"{key}={value}" for key, value in settings.items())
            raise InputError(f"--slurm {options_text}: submitit refuses it ({error})") from error

    def slots(self, trials: int) -> int:
        return math.ceil((trials if self.workers is None else self.workers) / self.tasks)

    def start(self, worker: Worker, slots: Sequence[int]) -> Sequence[submitit.Job]:
        try:
            with self.executor.batch():
                jobs = [self.executor.submit(worker) for _ in slots]
        except FailedJobError as error:
            fewer = f"; {len(slots)} jobs at a time are too many for some clusters, and --workers names fewer"
            raise InputError(
                f"Slurm refuses the workers: {' '.join(str(error).split())}{fewer if len(slots) > 1 else ''}"
            ) from error
        return jobs

    def stop(self, jobs: Sequence[submitit.Job]) -> None:
        for job in jobs:  # one by one: a job that Slurm does not know leaves no other running
            with suppress(OSError):
                subprocess.run(["scancel", "--quiet", job.job_id], check=False)  # quiet about jobs that have ended

    def is_preempted(self, job: submitit.Job) -> bool:
        return job.state == "PREEMPTED"  # final with PreemptMode=CANCEL, but submitit expects a requeue


class States(SlurmInfoWatcher):
    """States of jobs by sacct, whose answer may hold names of nodes or users in another encoding."""

    def read_info(self, string: bytes | str) -> dict[str, dict[str, str]]:
        return super().read_info(string.decode(errors="replace") if isinstance(string, bytes) else string)


def _check_sacct() -> None:
    """Checks that sacct lists the jobs of today.

    Raises:
        InputError: when sacct fails, since a killed worker then never ends.
    """
    try:
        process = subprocess.run(
            ["sacct", "--parsable2", "-o", "JobID,State"], capture_output=True, timeout=SACCT_SECONDS
        )
        fault = (
            process.stderr.decode(errors="replace") or f"exit status {process.returncode}" if process.returncode else ""
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        fault = str(error)
    if fault:
        raise InputError(
            f"--executor slurm: sacct fails ({' '.join(fault.split())[:300]}), and without it a killed worker looks as "
            "if it runs; run the sweep where Slurm's accounting answers, or --executor local in a job of your own"
        )


def _for_submitit(key: str, value: Any) -> Any:
    """Setting in submitit's form: lists of script lines or of words, bool for a switch, None for no line.

    Raises:
        ValueError: for an unclosed quote, or a switch that is neither true nor false.
    """
    match key, value:
        case "setup" | "teardown", _:
            return [str(value)]
        case "srun_args", _:
            return shlex.split(str(value))
        case "exclusive" | "stderr_to_stdout" | "use_srun", "true":
            return True  # submitit reads any text as true, also `false`
        case "exclusive", "false":
            return None
        case "stderr_to_stdout" | "use_srun", "false":
            return False
        case "stderr_to_stdout" | "use_srun", _:
            raise ValueError(f"{key} is true or false")
    return value
