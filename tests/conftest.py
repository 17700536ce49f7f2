"""Checks shapes and types of signatures while tests run, in a quick run at first calls only; production checks none."""

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

# One test runs on each core. Tests fork, and OpenMP's threads do not survive a fork: a fork that needs several threads
# waits for them for ever. Torch and faiss read these variables at import, and processes of a test inherit them.
os.environ |= {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
os.environ |= dict.fromkeys(("NO_PROXY", "no_proxy"), "127.0.0.1,localhost")  # addresses of tests' own servers

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
    """Returns the function with checks of arguments and result; unchecked if it names `Self`, which needs the class."""
    try:
        return beartype(function)
    except BeartypeDecorHintPep673Exception:
        return function


most_calls = math.inf  # checked calls of a function in one test
calls: dict[int, int] = {}  # number in the current test, by the function's code, which inner functions share


def checked(function: Any = None, *, typechecker: Callable) -> Any:
    """Replaces jaxtyping's decorator: generates the check at the first call of a function.

    One process never calls most of the 4,000 functions.
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
    """Checks only a function's first calls per test if only quick tests run: all checks take half of a training's time.

    The process that starts pytest's workers also starts their warm Python, if they will need it.
    """
    global most_calls
    most_calls = FIRST_CALLS if config.option.markexpr == "not slow" else math.inf
    if sys.platform == "linux" and getattr(config.option, "dist", "no") != "no" and _runs_all(config):
        os.environ[warm.SHARED] = str(warm.start())  # one for all workers; it starts while they collect


def _runs_all(config: pytest.Config) -> bool:
    return config.args_source == config.ArgsSource.TESTPATHS and not config.option.keyword


def pytest_runtest_logstart() -> None:
    calls.clear()


jaxtyping.jaxtyped = checked
HOOK = install_import_hook("annulus", f"{__name__}.{check.__name__}").hook  # before a test module imports annulus
find_spec = HOOK.find_spec


def find_with_bytecode(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
    """Returns the spec of a module of annulus; the module's own imports are read from their bytecode.

    jaxtyping renames bytecode files while a module runs, not only while its own is read. Without this each process
    would compile the packages that annulus imports (torch._dynamo, sympy, pandas, ...: 1,500 files) again.
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


HOOK.find_spec = find_with_bytecode
gc.disable()  # else it would scan a million permanent objects of imported modules twenty times


def pytest_collection_finish() -> None:
    """Limits garbage collection to objects of tests until the process ends, and parses each source once.

    The library's own store of parsed sources belongs to a checkout, and each test of a stage has a folder of its own.
    """
    from annulus.running import sources

    sources.read_source = cache(sources.read_source)
    gc.freeze()
    atexit.register(gc.unfreeze)
    gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sorts slow tests first: otherwise one process still has them when the others have ended."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


STACKS = tempfile.TemporaryFile()  # noqa: SIM115
faulthandler.register(signal.SIGUSR1, STACKS)  # for forks too, without a thread in each


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(call: pytest.CallInfo) -> Iterator[None]:
    """Adds the stacks of a test's forked processes to its report if the test timed out."""
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
    """Yields the forks of a process and their forks, without those that run another program by now."""
    children = Path(f"/proc/{process}/task").glob("*/children")  # empty except on Linux
    for child in (int(child) for file in children for child in file.read_text().split()):
        with suppress(OSError):
            if Path(f"/proc/{child}/cmdline").read_bytes() == Path(f"/proc/{process}/cmdline").read_bytes():
                yield child
                yield from forks(child)


@pytest.fixture(autouse=True)
def threads_as_before() -> Iterator[None]:
    """Fails a test that changes torch's number of threads: later tests would have other digits, or hang."""
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
    """An empty current folder; resume states go to its .annulus."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("DVC_ROOT", raising=False)
    return tmp_path


@pytest.fixture
def in_float64() -> Iterator[None]:
    """Sets float64 as torch's default dtype."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)
