"""Time under Python's lock; more threads can use the rest of a process's time at once.

A signal comes every millisecond of the processor, and its handler checks whether the interrupted thread holds the lock.
The measurement itself never waits for the lock, and other programs on the same cores change no share.
"""

import ctypes
import time
from collections.abc import Callable
from pathlib import Path

from annulus.device.c_library import library

SOURCE = Path(__file__).with_suffix(".c")
MILLISECOND = 1000


def under_lock(work: Callable[[], object], seconds: float) -> tuple[float, float]:
    """Processor seconds of a call, repeated for `seconds`, and its processor seconds under Python's lock.

    Raises:
        FileNotFoundError: on a machine without a C compiler.
    """
    timer = library(SOURCE)
    held, signals = (ctypes.c_long.in_dll(timer, name) for name in ("held", "asked"))
    work()
    held.value = signals.value = calls = 0
    started = time.process_time()
    timer.every(MILLISECOND)
    while calls == 0 or time.process_time() - started < seconds:
        work()
        calls += 1
    timer.every(0)
    each = (time.process_time() - started) / calls
    return each, each * held.value / max(signals.value, 1)
