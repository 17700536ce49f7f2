"""While tests run, shapes and types of signatures are checked, in a quick run at first calls; in production never."""

import atexit
import faulthandler
import gc
import importlib.util
import math
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import is_dataclass
from functools import cache, partial, wraps
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

# As many tests as cores run side by side; and tests fork, which the threads of OpenMP do not survive: a fork that asks
# for several waits for them for ever. Torch and faiss read these at their import, and processes of a test inherit them.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
os.environ |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")  # where tests' own servers are

import jaxtyping
import numpy as np
import pytest
import torch
import warm
from beartype import beartype
from beartype.roar import BeartypeDecorHintPep673Exception
from jaxtyping import install_import_hook, jaxtyped

FIRST_CALLS = 5


def check(function: Callable) -> Callable:
    """The function with its arguments and result checked, but for `Self`, which beartype sees in classes only."""
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function


most_calls = math.inf  # of a function that are checked in one test
calls: dict[int, int] = {}  # so many were in the current one, by the function's code: an inner function is made anew


def checked(function: Any = None, *, typechecker: Callable) -> Any:
    """In place of jaxtyping's decorator: the check is generated when the function is first called.

    Most of 4,000 functions are never called in one process.
    """
    if function is None:
        return partial(checked, typechecker=typechecker)
    if isinstance(function, type):
        if is_dataclass(function) and not hasattr(function.__init__, "__wrapped__"):
            function.__init__ = checked(function.__init__, typechecker=typechecker)
        return function
    code, checking = id(function.__code__), None

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        nonlocal checking
        if torch.compiler.is_compiling() or (count := calls.get(code, 0)) >= most_calls:
            return function(*arguments, **named)
        calls[code] = count + 1
        if checking is None:
            checking = jaxtyped(function, typechecker=typechecker)
        return checking(*arguments, **named)

    return called


def pytest_configure(config: pytest.Config) -> None:
    """Where only quick tests run, a function's first calls in a test are checked: all are half of a training's time.

    The process that starts pytest's workers starts their warm Python, too, where they will need it.
    """
    global most_calls
    most_calls = FIRST_CALLS if config.option.markexpr == "not slow" else math.inf
    if sys.platform == "linux" and getattr(config.option, "dist", "no") != "no" and _runs_all(config):
        os.environ[warm.SHARED] = str(warm.start())  # one for all workers, which collect meanwhile


def _runs_all(config: pytest.Config) -> bool:
    return config.args_source == config.ArgsSource.TESTPATHS and not config.option.keyword


def pytest_runtest_logstart() -> None:
    calls.clear()


jaxtyping.jaxtyped = checked
HOOK = install_import_hook("annulus", f"{__name__}.{check.__name__}").hook  # before a test module imports annulus
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
    """From here on only what tests make is searched for garbage, until the process ends; sources are parsed once.

    What was read of a source is kept by checkout, and each test of a stage has a folder of its own.
    """
    from annulus.running import sources

    sources.read_source = cache(sources.read_source)
    gc.freeze()
    atexit.register(gc.unfreeze)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with whole runs first: otherwise one process is left with them when the others have ended."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


STACKS = tempfile.TemporaryFile()  # noqa: SIM115
faulthandler.register(signal.SIGUSR1, STACKS)  # for forks too, without a thread in each


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo) -> Iterator[None]:
    """Where a test waited too long, the stacks of the processes that it has forked are beside its own."""
    report = yield
    if report.failed and "from pytest-timeout" in report.longreprtext:
        STACKS.truncate(0)
        for process in forks(os.getpid()):
            os.kill(process, signal.SIGUSR1)
            time.sleep(0.1)
        STACKS.seek(0)
        report.sections.append(("stacks of forked processes", STACKS.read().decode(errors="replace")))
    return report


def forks(process: int) -> Iterator[int]:
    """The processes that one has forked, and these, without those that have become another program."""
    children = Path(f"/proc/{process}/task").glob("*/children")  # nothing elsewhere than on Linux
    for child in (int(child) for file in children for child in file.read_text().split()):
        with suppress(OSError):
            if Path(f"/proc/{child}/cmdline").read_bytes() == Path(f"/proc/{process}/cmdline").read_bytes():
                yield child
                yield from forks(child)


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    """Fails a test that leaves torch other threads than it found: later ones would have other digits, or hang."""
    before = torch.get_num_threads()
    yield
    assert torch.get_num_threads() == before, "a test set torch's threads and did not put them back"


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
