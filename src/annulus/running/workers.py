"""Several computations at a time, each in its own process: about one per core, or one per GPU.

Two small computations use two cores better in parallel than one after the other. With one thread each, their numbers
do not depend on the number of cores.
"""

import logging
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path
from typing import Any, TypeVar

import torch

from annulus.device.device import gpu_names, keep_freed_memory, pick_device
from annulus.device.distributed import world_size
from annulus.device.threads import cores
from annulus.errors import InputError
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint, LockedError, let_go
from annulus.running.code import hash_code
from annulus.running.end import end_with

try:
    import faiss
except ModuleNotFoundError:  # k-means and kNN need it, other computations do not
    faiss = None

Item = TypeVar("Item")
Result = TypeVar("Result")

CPU = torch.device("cpu")
LOOK_SECONDS = 1.0  # between two looks at the lock of another process
INTERRUPTS = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}

log = logging.getLogger("annulus")

_compute: Callable[[Any], Any]  # in a worker: the function of each item, set at its start


def map_processes(
    compute: Callable[[Item], Result],
    items: Sequence[Item],
    *,
    names: Sequence[str] | None = None,
    device: torch.device = CPU,
    threads: int = 1,
) -> Iterator[Result]:
    """Results of `compute` for each item, in order, computed in parallel processes. Put long items first.

    A CPU runs about one process per core, each with `threads` threads; GPUs run one process each. Progress reports
    carry the `names`. A single item with several threads and a single GPU run in this process.

    If another process is computing an item, this one waits for it: two processes that begin the same items share them.

    Raises:
        InputError: if /dev/shm, which the processes' locks need, cannot be written; if a worker was killed.
        Exception: the first that an item raised.
    """
    names = [""] * len(items) if names is None else names
    gpus = torch.cuda.device_count() if device.type == "cuda" else 0
    alone = len(items) == 1 and threads > 1
    if not items or gpus == 1 or alone or world_size() > 1:  # a group of processes shares one run
        yield from _one_by_one(compute, items, names)
        return
    # A fork does not import again. But CUDA and OpenMP's threads do not survive it: if this process has computed with
    # several threads, a forked worker waits for them for ever, unless it has only one thread.
    context = get_context("spawn" if gpus or threads > 1 else "fork")
    workers = min(len(items), gpus or _sharing(len(items), cores()))
    try:
        reports, places = context.SimpleQueue(), context.SimpleQueue()
    except OSError as error:
        raise InputError(
            f"several processes need /dev/shm, which cannot be written here ({error.strerror}); mount it "
            "(`mount -t tmpfs tmpfs /dev/shm`), or give the container one"
        ) from error
    for name in gpu_names() if gpus else ():
        places.put(name)
    pool = ProcessPoolExecutor(
        workers, context, initializer=_begin, initargs=(os.getpid(), compute, reports, places, threads, gpus)
    )
    with pool:
        showing = threading.Thread(target=_show, args=(reports, len(items)), daemon=True)
        # Workers inherit the blocked signals (Ctrl-C, SIGTERM, SIGHUP), and unblock them when they are ready.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPTS)
        try:
            try:
                futures = [pool.submit(_computed, name, item) for name, item in zip(names, items, strict=True)]
                showing.start()  # after the fork, and with signals blocked: a half-started thread never ends
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, before)
            yield from (pickle.loads(future.result()) for future in futures)
        except BrokenProcessPool:
            raise InputError(
                "a process that computed was killed, mostly because memory ran out; free some, or let fewer compute at "
                "a time (`taskset -c 0 dvc repro`: one), then run again"
            ) from None
        finally:
            pool.shutdown(cancel_futures=True)
            reports.put(None)
            if showing.is_alive():
                showing.join()


def _sharing(items: int, cores: int) -> int:
    """Number of processes for the cores: up to half more than cores, if few equal items would leave cores idle.

    Three at a time, five items take two cores 2.5 items long; two at a time, 3. Of many items, the end is a small part.
    """
    most = cores * 3 // 2 if items <= 4 * cores else cores
    return next((count for count in range(cores, most + 1) if items % count == 0 or items % count >= cores), cores)


def map_seeds(compute: Callable[[int], Result], seeds: Sequence[int], device: torch.device = CPU) -> dict[int, Result]:
    """Results of `compute` by seed, in parallel processes; cores beyond the number of seeds become threads."""
    threads = max(1, cores() // len(seeds))
    names = [f"seed {seed}" for seed in seeds]
    return dict(zip(seeds, map_processes(compute, seeds, names=names, device=device, threads=threads), strict=True))


def compute_with(threads: int) -> None:
    """Sets the number of threads and the treatment of freed memory, for one of several parallel processes."""
    torch.set_num_threads(threads)
    if faiss is not None:
        faiss.omp_set_num_threads(threads)
    keep_freed_memory()


class ResumableTasks:
    """Tasks of a stage, several at a time. A killed stage resumes with the unfinished ones.

    A finished task is stored by its key and settings alone, so a run with further seeds computes only the new ones.
    """

    def __init__(
        self,
        stage: str,
        compute: Callable[[Any, Any], Mapping[str, Any]],
        device: torch.device = CPU,
        inner: Callable[[Any, Any], Checkpoint] | None = None,
    ) -> None:
        """`compute(settings, key)` returns a task's result: numbers, text, tensors, and lists and dicts of them.

        It must be a function of a module, so that it can be pickled for workers; the module's code is part of the key.
        `device`: its device. `inner`: the resume state within a task, removed after its result is stored.
        """
        self.stage, self.compute, self.device, self.inner = stage, compute, device, inner
        # Hashed now: an edit while tasks wait for a worker does not change the code that runs.
        self.code = hash_code(Path(sys.modules[compute.__module__].__file__))
        self.checkpoints: list[Checkpoint] = []

    def run(self, tasks: Mapping[Any, Any]) -> dict[Any, Mapping[str, Any]]:
        """Computes results by key, in the keys' order, from settings by key; keys are text, numbers, or tuples.

        The settings hold only what this task depends on beside its key, and nothing of other tasks, such as all seeds.
        """
        self.checkpoints += [self._checkpoint(*task) for task in tasks.items()]
        names = [_words(key) for key in tasks]
        results = map_processes(self._one, list(tasks.items()), names=names, device=self.device)
        return dict(zip(tasks, results, strict=True))

    def done(self) -> None:
        """Marks the checkpoints for removal, after the results are written."""
        let_go(self.checkpoints)

    def _one(self, task: tuple[Any, Any]) -> Mapping[str, Any]:
        key, settings = task
        with self._checkpoint(key, settings) as checkpoint:
            result = checkpoint.load()
            if result is None:
                result = self.compute(settings, key)
                checkpoint.save(result)
                if self.inner is not None:
                    with self.inner(settings, key) as within:
                        within.done()
        return result

    def _checkpoint(self, key: Any, settings: Any) -> Checkpoint:
        return Checkpoint(self.stage, {"settings": settings, "piece": key, "code": self.code})


def _words(key: Any) -> str:
    """Name of a task in progress reports."""
    return ", ".join(map(_words, key)) if isinstance(key, tuple) else str(key)


def _one_by_one(compute: Callable[[Item], Result], items: Sequence[Item], names: Sequence[str]) -> Iterator[Result]:
    with closing(progress.Display(len(items))) as display:
        for name, item in zip(names, items, strict=True):
            progress.begin(name, display.show)
            yield _awaited(compute, item)


def _awaited(compute: Callable[[Item], Result], item: Item) -> Result:
    """Computes an item; if another process is computing it, waits first.

    Without waiting, two processes that hold each other's items would both fail.
    """
    waits = False
    while True:
        try:
            return compute(item)
        except LockedError as error:
            if world_size() > 1:  # the group would wait for this one, at most half an hour
                raise
            if not waits:
                progress.say(f"{error} (this process waits)")
            waits, held = True, error.held
        time.sleep(LOOK_SECONDS)
        while held():  # before `compute`, which may load all images before it tries the lock
            time.sleep(LOOK_SECONDS)


def _show(reports: SimpleQueue, runs: int) -> None:
    """Displays the reports of workers until None arrives."""
    with closing(progress.Display(runs)) as display:
        for message in iter(reports.get, None):
            display.show(message)


def _begin(
    stage: int,
    compute: Callable[[Item], Result],
    reports: SimpleQueue,
    places: SimpleQueue,
    threads: int,
    gpus: int,
) -> None:
    """Initialises a worker: its function, its cores or GPU, its logging, and its end with the stage's process."""
    global _compute
    _compute = compute
    end_with(stage)
    for interrupt in INTERRUPTS:
        if signal.getsignal(interrupt) is not signal.SIG_IGN:  # as under nohup, or in a shell's background
            signal.signal(interrupt, signal.SIG_DFL)  # ends it silently: the stage prints one sentence for all
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPTS)
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = places.get()  # the device "cuda" from here on
        pick_device()
    compute_with(threads)
    progress.begin("", reports.put)
    log.handlers = [progress.Forwarding()]
    log.propagate = False
    log.setLevel(logging.WARNING)  # lines per epoch of several computations would be unreadable


def _computed(name: str, item: Item) -> bytes:
    """Result of an item, pickled here.

    torch would send its tensors through sockets, whose paths have room for 107 bytes, and a long TMPDIR would lose the
    work.
    """
    progress.rename(name)
    return pickle.dumps(_awaited(_compute, item))
