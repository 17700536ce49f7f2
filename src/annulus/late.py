"""Public names of a package: its `__init__.pyi` lists them, and each is imported at its first use.

So one room does not import the others, and type checkers read the same list.
"""

import re
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

LINE = re.compile(r"^from (\S+) import (\w+) as \2$", re.MULTILINE)


def late(package: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns a package's `__all__`, `__getattr__` and `__dir__`."""
    module = sys.modules[package]
    table = module.__loader__.get_data(f"{module.__path__[0]}/__init__.pyi").decode()  # importing pathlib takes longer
    homes = {name: home for home, name in LINE.findall(table)}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        room = homes[name] == package
        return import_module(f"{package}.{name}") if room else getattr(import_module(homes[name]), name)

    return [*homes], find, lambda: [*homes]
