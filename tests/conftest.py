"""While tests run, every signature's shapes and types are checked; in production they cost nothing."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # as many tests as cores run side by side; torch reads it at its import

import numpy as np
import pytest
import torch
from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception
from jaxtyping import install_import_hook


def checked(function: Callable) -> Callable:
    """The function with its arguments and result checked, but for `Self`, which beartype sees in classes only."""
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function


install_import_hook("annulus", f"{__name__}.{checked.__name__}")  # before a test module imports annulus


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
