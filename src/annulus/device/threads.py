"""This process's cores and threads, which read, decode and augment images. Their number changes no result."""

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

OWN_GROUPS, GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def cores() -> int:
    """Usable CPU cores: at most the cgroup's quota, rounded up."""
    # macOS and Windows have no affinity of a process.
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, math.ceil(min(allowed, *_shares())))


def threads() -> int:
    """Number of torch's threads, which the environment may limit; at most the number of cores."""
    import torch  # here, since `cores` does not need it

    return min(torch.get_num_threads(), cores())


def submit(work: Callable[[range], object], count: int, portion: int) -> list[Future]:
    """Submits `count` items to the threads, `portion` at a time; a free thread takes the next portion.

    A thread does not inherit `torch.inference_mode`, and its tensors may be written only in that mode, so it is set.
    """
    import torch

    pool, inferring = _threads(os.getpid()), torch.is_inference_mode_enabled()

    def work_in_mode(portion: range) -> object:
        with torch.inference_mode(inferring):
            return work(portion)

    return [
        pool.submit(work_in_mode if inferring else work, range(first, min(first + portion, count)))
        for first in range(0, count, portion)
    ]


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Pool of `threads()` threads, each on one core. Each process has its own, since threads do not survive a fork."""
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
