"""Checks for optional packages; one sentence names the missing ones."""

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


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


def load_faiss(user: str) -> ModuleType:
    """faiss, which its CPU build and its GPU build both bring; `user` is what needs it.

    Raises:
        ModuleNotFoundError: where neither is installed.
    """
    if find_spec("faiss") is None:
        raise ModuleNotFoundError(
            f"{user} needs faiss, which this Python ({sys.executable}) has not; install one of its builds: "
            "pip install faiss-cpu, or for a GPU pip install faiss-gpu",
            name="faiss",
        )
    return import_module("faiss")
