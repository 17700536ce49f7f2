"""Sentences for a user: an exception without a traceback, its parts, and which optional packages are missing."""

import difflib
import reprlib
import sys
from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any


class InputError(ValueError):
    """Something that the user wrote or supplied cannot work.

    The message names the value received, what was expected, and the way out.

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


def shown(value: Any) -> str:
    """A value as a sentence shows it: whole, or cut where it is long."""
    short = _Short()  # never the whole of a value that anchors make endless
    short.maxlevel, short.maxlist, short.maxdict, short.maxother, short.maxlong, short.maxstring = 2, 8, 8, 80, 80, 80
    text = short.repr(value)
    return text if len(text) <= 200 else f"{text[:200]}..."


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean 'ring'?` for the closest known word, or nothing when none is close."""
    close = difflib.get_close_matches(str(word), list(known), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def require(room: str, extra: str, modules: Sequence[str]) -> None:
    """Refuse to import `room`, such as annulus.report, where one of the modules is missing.

    Raises:
        ModuleNotFoundError: with the modules that are missing and the extra of this package that brings them.
    """
    missing = [module for module in modules if find_spec(module) is None]
    if missing:
        # With the room as its name, `python -m` shows the sentence without a traceback.
        raise ModuleNotFoundError(
            f"{room} needs {' and '.join(missing)}, which this Python ({sys.executable}) has not; in a checkout "
            "`make install` brings all, then `. .venv/bin/activate` takes it; where annulus-ssl is installed, "
            f'pip install "annulus-ssl[{extra}]"; elsewhere pip install "annulus-ssl[{extra}] @ git+https://ADDRESS", '
            "with the repository's address",
            name=room,
        )


def load_faiss() -> ModuleType:
    """faiss, which its CPU build and its GPU build both bring.

    Raises:
        ModuleNotFoundError: where neither is installed.
    """
    if find_spec("faiss") is None:
        raise ModuleNotFoundError(
            f"k-means on a CPU needs faiss, which this Python ({sys.executable}) has not; install one of its builds: "
            "pip install faiss-cpu, or for a GPU pip install faiss-gpu",
            name="faiss",
        )
    return import_module("faiss")
