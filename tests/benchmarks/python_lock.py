"""Time under Python's lock: the rest of a process's time is what more threads can take at once.

A signal comes every millisecond of the processor, and its handler asks whether the thread that it stopped holds the
lock. So nothing waits for the lock in order to measure it, and other programs on the same cores change no share.
"""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

from annulus.device.c_library import library

SOURCE = Path(__file__).with_suffix(".c")
MILLISECOND = 1000


def under_lock(work: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Processor seconds of a call, repeated for so many seconds, and how many of them it holds Python's lock.

    Raises:
        FileNotFoundError: where there is no C compiler.
    """
    timer = library(SOURCE)
    held, asked = (ctypes.c_long.in_dll(timer, name) for name in ("held", "asked"))
    work()
    held.value = asked.value = calls = 0
    started = time.process_time()
    timer.every(MILLISECOND)
    while calls == 0 or time.process_time() - started < seconds:
        work()
        calls += 1
    timer.every(0)
    each = (time.process_time() - started) / calls
    return each, each * held.value / max(asked.value, 1)
