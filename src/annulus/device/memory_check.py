"""Checks that memory suffices before an allocation."""

import os
from collections.abc import Mapping
from pathlib import Path

import torch

from annulus.errors import InputError

GIB = 2**30


def free_bytes(device: torch.device) -> int:
    """Free bytes on the GPU or in main memory; in a container, at most the rest of its limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
        free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # another system than Linux
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / name).read_text(encoding="utf-8")) for name in ("memory.max", "memory.current"))
        counted = dict(line.split() for line in (group / "memory.stat").read_text(encoding="utf-8").splitlines())
        cached = sum(int(counted.get(name, 0)) for name in ("active_file", "inactive_file"))  # freed when needed
        return min(free, limit - used + cached)
    except (OSError, ValueError):  # no group, or one without a limit
        return free


def check_space(needs: Mapping[str, int], device: torch.device, way_out: str) -> None:
    """Raises InputError if memory cannot hold the needs: bytes by purpose, each a lower bound.

    Raises:
        InputError: with each need, largest first, their sum, and the free bytes.
    """
    needed, free = sum(needs.values()), free_bytes(device)
    if needed <= free:
        return
    where = "the GPU" if device.type == "cuda" else "memory"
    parts = ", ".join(f"{name} {_gib(size)}" for name, size in sorted(needs.items(), key=lambda need: -need[1]) if size)
    raise InputError(f"{_gib(needed)} are needed of {where}, where {_gib(free)} are free: {parts}; {way_out}")


def _gib(size: int) -> str:
    return f"{size / GIB:,.1f} GiB"
