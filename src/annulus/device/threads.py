"""This process's cores and threads, which read, decode and see images side by side. Their number changes no result."""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

OWN_GROUPS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def cores() -> int:
    """The cores that this process may run on; where a container or a job has less of their time, that, rounded up."""
    # macOS and Windows do not tell which cores a process may run on.
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, *_shares())))


def threads() -> int:
    """Number of torch's threads, which the environment may limit; at most the number of cores."""
    import torch  # not where cores are only counted

    return min(torch.get_num_threads(), cores())


def submit(work: Callable[[range], object], count: int, portion: int) -> list[Future]:
    """Submit `count` items to the threads, `portion` at a time; threads take the next portion when they are free.

    A thread does not inherit `torch.inference_mode`, whose tensors may be written only in that mode.
    """
    import torch

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
    """Pool of as many threads as torch has, each computing on one core. Threads do not survive a fork."""
    import torch

    return ThreadPoolExecutor(threads(), initializer=torch.set_num_threads, initargs=(1,))


def _shares() -> Iterator[float]:
    """CPU limit of each control group around this process, in cores: `cpu.max` (version 2), `cpu.cfs_*` (version 1)."""
    yield math.inf
    try:
        lines = OWN_GROUPS.read_text(encoding="utf-8").splitlines()
    except OSError:  # another system than Linux
        return
    for _, kinds, own in (line.split(":", 2) for line in lines):
        if kinds and "cpu" not in kinds.split(","):
            continue
        root = GROUPS / "cpu" if kinds else GROUPS
        names = ["cpu.cfs_quota_us", "cpu.cfs_period_us"] if kinds else ["cpu.max"]
        group = root / own.strip("/")  # a container may see its own group as the root, under another name here
        for folder in (group, *group.parents[: len(group.parts) - len(root.parts)]):
            with suppress(OSError, ValueError):  # no such group; `max` of version 2
                words = " ".join((folder / name).read_text(encoding="utf-8") for name in names).split()
                quota, period = map(int, words)
                if quota > 0:  # -1: no limit
                    yield quota / period
