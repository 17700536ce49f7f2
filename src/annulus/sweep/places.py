"""Executors of workers: processes of this machine or jobs of a Slurm array, which submitit starts and follows."""

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

from annulus.device.device import gpu_names
from annulus.device.threads import cores
from annulus.errors import InputError, nearest
from annulus.sweep.worker import Worker

YEAR_MINUTES = 366 * 24 * 60
SLURM_MINUTES = 4 * 60  # of a job; one whose time is over is requeued, and goes on
REQUEUES = 10_000


class Executor(ABC):
    """Starts jobs, each of `tasks` workers."""

    tasks: int

    @abstractmethod
    def slots(self, trials: int) -> int:
        """Largest number of simultaneous jobs for so many trials."""

    @abstractmethod
    def start(self, worker: Worker, slots: Sequence[int]) -> Sequence[submitit.Job]:
        """A job in each of the slots.

        Raises:
            InputError: when Slurm refuses it.
        """

    @abstractmethod
    def stop(self, jobs: Sequence[submitit.Job]) -> None:
        """End jobs, now."""

    def is_preempted(self, job: submitit.Job) -> bool:
        """True for a job without an end whose place was given to another."""
        return False


class Local(Executor):
    """Workers on this machine: one per core on a CPU; on GPUs as many as share each GPU."""

    tasks = 1

    def __init__(self, folder: Path, workers: int | None, gpus_per_worker: float | None) -> None:
        """
        Raises:
            InputError: when more of the GPUs are asked for than there are.
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
        names = gpu_names()  # in turn, so that few workers do not share one GPU beside an idle one
        task = partial(_on_gpu, names[slot % len(names)], worker) if self.share else worker
        # Ctrl-C reaches every process of the terminal; it is for the sweep alone, which ends its workers.
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            return self.executor.submit(task)
        finally:
            signal.signal(signal.SIGINT, before)

    def stop(self, jobs: Sequence[submitit.Job]) -> None:
        for job in jobs:
            with suppress(ProcessLookupError):
                os.kill(int(job.job_id), signal.SIGTERM)  # submitit's process of the job, which hands it on
        for job in jobs:
            job.wait()


def _on_gpu(name: str, worker: Worker) -> None:
    """Run a worker with this GPU alone. submitit would give numbers, and count from the machine's first."""
    os.environ["CUDA_VISIBLE_DEVICES"] = name
    worker()


class Slurm(Executor):
    """Workers in jobs of a Slurm array, one in each; with a fraction of a GPU each, as many as share one GPU."""

    def __init__(
        self, folder: Path, workers: int | None, gpus_per_worker: float | None, settings: Mapping[str, Any]
    ) -> None:
        """
        Raises:
            InputError: without Slurm's commands, or for a setting that submitit does not know or refuses.
        """
        missing = [command for command in ("sbatch", "srun", "scancel", "sacct") if shutil.which(command) is None]
        if missing:
            raise InputError(
                f"--executor slurm: no {' and no '.join(missing)} here; run the sweep where jobs are submitted, or "
                "with --executor local"
            )
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
        asked = {"job_name": "annulus-sweep", "time": SLURM_MINUTES, "cpus_per_task": 1, "ntasks_per_node": self.tasks}
        try:
            given = {key: _for_submitit(key, value) for key, value in settings.items()}
            self.executor.update_parameters(**asked | ({"gpus_per_node": 1} if share else {}) | given)
        except (TypeError, ValueError) as error:
            told = " ".join(f"{key}={value}" for key, value in settings.items())
            raise InputError(f"--slurm {told}: submitit refuses it ({error})") from error

    def slots(self, trials: int) -> int:
        return math.ceil((trials if self.workers is None else self.workers) / self.tasks)

    def start(self, worker: Worker, slots: Sequence[int]) -> Sequence[submitit.Job]:
        try:
            with self.executor.batch():
                jobs = [self.executor.submit(worker) for _ in slots]
        except FailedJobError as error:
            raise InputError(f"Slurm refuses the workers: {' '.join(str(error).split())}") from error
        return jobs

    def stop(self, jobs: Sequence[submitit.Job]) -> None:
        if jobs:  # quiet of those that have ended by now
            subprocess.run(["scancel", "--quiet", *(job.job_id for job in jobs)], check=False)

    def is_preempted(self, job: submitit.Job) -> bool:
        return job.state == "PREEMPTED"  # with PreemptMode=CANCEL for ever, which submitit takes for a requeue


def _for_submitit(key: str, value: Any) -> Any:
    """A setting as submitit takes it: lines of a script, and words, as lists, switches as bool, or None for no line.

    Raises:
        ValueError: for a quote without its end, or a switch that is neither true nor false.
    """
    match key, value:
        case "setup" | "teardown", _:
            return [str(value)]
        case "srun_args", _:
            return shlex.split(str(value))
        case "exclusive" | "stderr_to_stdout" | "use_srun", "true":
            return True  # text is as good as true to submitit: `false` too
        case "exclusive", "false":
            return None
        case "stderr_to_stdout" | "use_srun", "false":
            return False
        case "stderr_to_stdout" | "use_srun", _:
            raise ValueError(f"{key} is true or false")
    return value
