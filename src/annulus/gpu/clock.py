"""Measures seconds, host waits, kernels and peak memory of calls on a GPU.

With a pretended GPU, in tests, only seconds are measured.
"""

import time
import warnings
from collections.abc import Callable

import torch

Call = Callable[[], object]


def synchronize() -> None:
    """Waits for the GPU, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_per_call(call: Call, calls: int) -> float:
    """Mean time of consecutive calls, after a few to warm up. A wait after each call would hide the queueing time."""
    for _ in range(min(calls, 5)):
        call()
    synchronize()
    started = time.perf_counter()
    for _ in range(calls):
        call()
    synchronize()
    return (time.perf_counter() - started) / calls


def peak_bytes(call: Call) -> int | None:
    """Largest increase of the tensors' memory on the GPU during a call."""
    if not torch.cuda.is_available():
        return None
    synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    synchronize()
    return torch.cuda.max_memory_allocated() - before


def host_waits(call: Call) -> int | None:
    """Number of times that a call makes the host wait for the GPU."""
    if not torch.cuda.is_available():
        return None
    mode = torch.cuda.get_sync_debug_mode()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            call()
        finally:
            torch.cuda.set_sync_debug_mode(mode)
    return sum("called a synchronizing" in str(warning.message) for warning in caught)


def kernels(call: Call) -> int | None:
    """Number of kernels and copies that a call starts, by torch's profiler."""
    if not torch.cuda.is_available():
        return None
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiled:
        call()
        synchronize()
    return sum(event.device_type == DeviceType.CUDA for event in profiled.events())
