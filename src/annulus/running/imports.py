"""Imports at the start of a program, such as torch, without Python's garbage collection."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Context without garbage collection, which takes a sixth of torch's import.

    A million objects of modules stay. Python would search them twenty times, and once more as the program ends.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # else Triton reports the remaining objects as leaks
        gc.enable()
