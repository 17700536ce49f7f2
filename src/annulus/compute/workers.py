"""Several computations at a time, each in its own process on one core.

Two small computations use two cores better in parallel than one after the other, and their numbers do not depend on the
number of cores.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, TypeVar

import faiss
import torch

from annulus.compute.device import keep_freed_memory
from annulus.pipeline.checkpoint import Checkpoint, hash_code

Item = TypeVar("Item")
Result = TypeVar("Result")

log = logging.getLogger("annulus")


def each(compute: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
    """`compute` of each item, in their order. Put long items first: the cores then stay busy to the end.

    Call it before anything computes: workers are forked, and torch's and faiss's threads must not run at a fork.

    Raises:
        Exception: the first that an item raised.
    """
    import torch._dynamo  # noqa: F401  what an optimiser's first step imports: three seconds once, not in every worker

    workers = min(len(items), len(os.sched_getaffinity(0)))
    with ProcessPoolExecutor(workers, get_context("fork"), initializer=_begin, initargs=(os.getpid(),)) as pool:
        yield from pool.map(compute, items)


class Pieces:
    """A stage's work in pieces, several at a time; a killed stage goes on with those that it had not finished."""

    def __init__(self, stage: str, settings: Any, compute: Callable[[Any, Any], Mapping[str, Any]]) -> None:
        """`compute(settings, key)` makes a piece's result: numbers, text, tensors, and lists and dicts of them.

        It is a module's function, so that a worker can be told which.
        """
        self.stage, self.settings, self.compute = stage, settings, compute
        self.code = hash_code()  # as it is now: an edit while pieces wait for a worker does not change what runs
        self.begun: list[Checkpoint] = []

    def run(self, keys: Sequence[Any]) -> list[Mapping[str, Any]]:
        """The result of each piece, in the keys' order; keys are text, numbers, or lists of them."""
        self.begun += [self._checkpoint(key) for key in keys]
        return list(each(self._one, keys))

    def done(self) -> None:
        """Forget the pieces: the results are written."""
        for checkpoint in self.begun:
            with checkpoint:
                checkpoint.done()

    def _one(self, key: Any) -> Mapping[str, Any]:
        with self._checkpoint(key) as checkpoint:
            result = checkpoint.load()
            if result is None:
                result = self.compute(self.settings, key)
                checkpoint.save(result)
        return result

    def _checkpoint(self, key: Any) -> Checkpoint:
        return Checkpoint(self.stage, {"settings": self.settings, "piece": key, "code": self.code})


def _begin(stage: int) -> None:
    """What a worker starts with: one core, no lines of its own, and the stage's process to end with."""
    threading.Thread(target=_end_with, args=(stage,), daemon=True).start()
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)
    keep_freed_memory()
    log.setLevel(logging.ERROR)  # a line per epoch of each of several computations would tell nothing


def _end_with(stage: int) -> None:
    """End this worker when its stage is gone: it would otherwise continue and hold the checkpoint's lock."""
    while os.getppid() == stage:
        time.sleep(0.5)
    os._exit(1)
