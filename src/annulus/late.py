"""Imports: public names when they are first asked for, so that one room does not import the others; torch at once."""

import atexit
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any


def late(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """A package's `__getattr__` and `__dir__`.

    `homes` holds, by module of the package, the public names that the module defines; an empty text stands for the
    module itself. Called in an `else` of `if TYPE_CHECKING`, so that type checkers know which names there are.
    """
    module_of = {name: module for module, names in homes.items() for name in names.split()}
    rooms = [module for module, names in homes.items() if not names]

    def find(name: str) -> Any:
        if name in rooms:
            return import_module(f"{package}.{name}")
        if name in module_of:
            return getattr(import_module(f"{package}.{module_of[name]}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return find, lambda: sorted([*rooms, *module_of])


@contextmanager
def uncollected() -> Iterator[None]:
    """For the first imports of a program: without Python's search for garbage, which takes a sixth of torch's import.

    A million objects of modules stay; they would be searched twenty times, and once more as the program ends.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # else Triton takes what stays for leaks
        gc.enable()
