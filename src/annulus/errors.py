"""Error sentences: the exception that a user sees without a traceback, its parts, and missing optional packages."""

import difflib
import reprlib
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class InputError(ValueError):
    """Invalid input: a parameter, an argument or a file that cannot be used.

    The message names the value received, the expectation and the way out.

    >>> try:
    ...     annulus.negatives.Ring(inner=0.5, outer=0.1)
    ... except annulus.InputError as error:
    ...     print(error)
    ring needs inner < outer, got inner=0.5, outer=0.1
    """


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # Python writes no number of more than 4,300 digits.
        return super().repr_int(x, level) if x.bit_length() < 14_000 else "a number of thousands of digits"


def abridge(value: Any) -> str:
    """Returns a value's repr, cut to 200 characters."""
    short = _Short()  # YAML's anchors can make a value endless
    short.maxlevel, short.maxlist, short.maxdict, short.maxother, short.maxlong, short.maxstring = 2, 8, 8, 80, 80, 80
    text = short.repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """Returns `; did you mean 'ring'?` with the closest known word, or an empty string if none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def require(room: str, extra: str | None, modules: Sequence[str]) -> None:
    """Raises ModuleNotFoundError if a module that `room` (such as annulus.look) imports is missing.

    `extra` is the extra of annulus-ssl that installs the modules; None for a room that only a checkout has.

    Raises:
        ModuleNotFoundError: with the missing modules and the extra that installs them.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        elsewhere = (
            f'; where annulus-ssl is installed, pip install "annulus-ssl[{extra}]"; elsewhere pip install '
            f'"annulus-ssl[{extra}] @ git+https://ADDRESS", with the repository\'s address'
        )
        # With the room as its name, `python -m` shows the sentence without a traceback.
        raise ModuleNotFoundError(
            f"{room} needs {' and '.join(missing)}, which this Python ({sys.executable}) has not; in a checkout "
            f"`make install` installs all, then `. .venv/bin/activate` activates it{elsewhere if extra else ''}",
            name=room,
        )


def load_faiss() -> ModuleType:
    """Imports faiss, from its CPU build or its GPU build.

    Raises:
        ModuleNotFoundError: if neither is installed.
    """
    if find_spec("faiss") is None:
        raise ModuleNotFoundError(
            f"k-means on a CPU needs faiss, which this Python ({sys.executable}) has not; install one of its builds: "
            "pip install faiss-cpu, or for a GPU pip install faiss-gpu",
            name="faiss",
        )
    return import_module("faiss")
