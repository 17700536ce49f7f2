"""The first imports of a program, torch's among them, without Python's search for garbage."""

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Imports without the search for garbage, which takes a sixth of torch's import.

    A million objects of modules stay; Python would search them twenty times, and once more as the program ends.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # else Triton takes what stays for leaks
        gc.enable()
