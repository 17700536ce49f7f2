"""While tests run, every signature's shapes and types are checked; in production they cost nothing."""

import atexit
import gc
import importlib.util
import os
from collections.abc import Callable, Iterator
from functools import wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many tests as cores run side by side; torch reads it at its import

import numpy as np
import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception
from jaxtyping import install_import_hook


def checked(function: Callable) -> Callable:
    """The function with its arguments and result checked, but for `Self`, which beartype sees in classes only.

    The check is generated when the function is first called: most of 4,000 are never called in one process.
    """
    check = None

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal check
        if check is None:
            try:
                check = beartype(function)
            except BeartypeDecorHintPep673Exception:
                check = function
        return check(*arguments, **named)

    return called


HOOK = install_import_hook("annulus", f"{__name__}.{checked.__name__}").hook  # before a test module imports annulus
find_spec = HOOK.find_spec


def found(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
    """A module of annulus, whose own imports are read from their bytecode.

    jaxtyping renames bytecode files while a module runs, not only while its own is read: packages that annulus imports
    (torch._dynamo, sympy, pandas, ...: 1,500 files) would be compiled again in each process.
    """
    spec = find_spec(name, path, target)
    if spec is not None:
        checked_code = spec.loader.get_code

        def get_code(fullname: str) -> Any:
            code = checked_code(fullname)
            importlib._bootstrap_external.cache_from_source = importlib.util.cache_from_source
            return code

        spec.loader.get_code = get_code
    return spec


HOOK.find_spec = found
gc.disable()  # a million objects of imported modules, which stay, would be searched for garbage twenty times


def pytest_collection_finish() -> None:
    """From here on only what tests make is searched, until the process ends."""
    gc.freeze()
    atexit.register(gc.unfreeze)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with whole runs first: otherwise one process is left with them when the others have ended."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def untouched_global_randomness() -> Iterator[None]:
    """Fails the test when anything drew from, or seeded, a global generator."""
    # Python's own `random` is left out: annulus never imports it, and beartype draws from it to check lists.
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()  # noqa: NPY002
    yield
    assert torch.equal(torch.get_rng_state(), before[0]), "torch's global generator was used"
    assert np.random.get_state()[1].tolist() == before[1], "NumPy's global generator was used"  # noqa: NPY002


@pytest.fixture
def empty_checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, in whose .annulus resume states lie."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    return tmp_path


@pytest.fixture
def in_float64() -> Iterator[None]:
    """Tensors are drawn and made in float64."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
