"""This process's threads: they read, decode and see images side by side. How many there are changes no number."""

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache

import torch


def begin(work: Callable[[range], object], count: int, portion: int) -> list[Future]:
    """Let the threads work on so many items, a portion at a time; first come, first served.

    A thread of its own knows nothing of `torch.inference_mode`, whose tensors may be written in that mode alone.
    """
    pool, inferring = _threads(os.getpid()), torch.is_inference_mode_enabled()

    def worked(portion: range) -> object:
        with torch.inference_mode(inferring):
            return work(portion)

    return [
        pool.submit(worked if inferring else work, range(first, min(first + portion, count)))
        for first in range(0, count, portion)
    ]


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """As many threads as torch has, each of which computes by itself. They do not survive a fork."""
    return ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,))
