"""The device that computes, and its settings. None of them is a parameter."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from annulus.device.threads import cores
from annulus.errors import InputError

# glibc's mallopt options (malloc.h).
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def pick_device() -> torch.device:
    """The GPU when there is one, else the CPU; each process calls this, for its own settings.

    Raises:
        InputError: when ANNULUS_PRECISION, ANNULUS_DETERMINISTIC or ANNULUS_COMPILE has an unknown value, or one that
            the machine does not support.
    """
    if torch.get_num_threads() > cores():  # torch does not see a container's limit
        torch.set_num_threads(cores())
    same_bits = deterministic()
    compiler = os.environ.get("CXX", "g++")  # as torch looks for one
    if compiling() != "no" and shutil.which(compiler) is None:
        raise InputError(
            f"ANNULUS_COMPILE is {compiling()}, and there is no compiler {compiler!r}; install one (on Debian g++), "
            "name another in CXX, or unset ANNULUS_COMPILE"
        )
    if torch.cuda.is_available():
        if same_bits:
            _compute_deterministically()
        else:
            torch.backends.cudnn.benchmark = True  # batches have one size: the fastest convolutions of it, found once
        return torch.device("cuda")
    if half_precision() and not torch.cpu._is_amx_tile_supported():
        raise InputError(
            "ANNULUS_PRECISION is bf16, and this processor has no AMX, which makes bfloat16 fast; unset it, "
            "or take a processor that has"
        )
    keep_freed_memory()
    return torch.device("cpu")


def gpu_names() -> list[str]:
    """Names of the GPUs that are visible here, as CUDA_VISIBLE_DEVICES of a child process takes them."""
    count, given = torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    return [*map(str, range(count))] if given is None else [name.strip() for name in given.split(",")][:count]


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Context in which operations on the CPU use `count` threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 for the encoder on a GPU; on a CPU float32, or bfloat16 where ANNULUS_PRECISION is bf16.

    Where a loop of one's own is under autocast, its type.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, dtype=torch.get_autocast_dtype(device.type))
    enabled = device.type == "cuda" or half_precision()
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def without_autocast(device: torch.device) -> torch.autocast:
    """For scores and bounds, which are computed as they come also where a loop of one's own is under autocast."""
    return torch.autocast(device.type, enabled=False)


def half_precision() -> bool:
    """Returns True if ANNULUS_PRECISION selects bfloat16 for encoders on a CPU: faster, with other digits.

    Raises:
        InputError: when ANNULUS_PRECISION is unknown.
    """
    return _asked("ANNULUS_PRECISION", ("float32", "bf16"), "float32") == "bf16"


def deterministic() -> bool:
    """Returns True if ANNULUS_DETERMINISTIC asks a GPU for equal bits in each run, which costs time. A CPU always does.

    No parameter: a run's numbers are those of its parameters, with the switch or without it, up to a GPU's rounding.

    Raises:
        InputError: when ANNULUS_DETERMINISTIC is unknown.
    """
    return _asked("ANNULUS_DETERMINISTIC", ("yes", "no"), "no") == "yes"


def compiling() -> str:
    """Mode of torch.compile in training: no, yes, or graphs, which a GPU also replays as CUDA graphs.

    No parameter: a run's numbers are those of its parameters, compiled or not, up to rounding.

    Raises:
        InputError: when ANNULUS_COMPILE is unknown.
    """
    return _asked("ANNULUS_COMPILE", ("no", "yes", "graphs"), "no")


def _asked(variable: str, choices: tuple[str, ...], usual: str) -> str:
    """Value of an environment variable, checked against its choices; `usual` where it is unset."""
    asked = os.environ.get(variable, usual)
    if asked not in choices:
        raise InputError(f"{variable} is {asked!r}; give {' or '.join(choices)}, or unset it for {usual}")
    return asked


def described(device: torch.device, threads: int = 1) -> str:
    """Kind and settings of the device; two devices with one description give the same digits, or nearly."""
    return " ".join([device.type, *ways(device, threads)])


def ways(device: torch.device, threads: int = 1) -> list[str]:
    """Departures from the usual computation on a device: on a CPU, several threads add up in another order than one."""
    if device.type == "cuda":
        own = {"deterministic": deterministic()}
    else:
        own = {"bf16": half_precision(), f"{threads} threads": threads > 1}
    return [word for word, is_so in (own | {"compiled": compiling() != "no"}).items() if is_so]


def _compute_deterministically() -> None:
    """Let torch take none but deterministic ways on a GPU, and refuse an operator that has none."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read at cuBLAS's first product
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # nothing here reads memory that it has not written


def keep_freed_memory() -> None:
    """Let the allocator reuse large blocks: glibc would hand each one back and fault its pages in anew.

    A training step allocates hundreds of megabytes of activations; without this, a third of the step's
    time went to page faults (ResNet-18, 32 px, batch 256, two cores).
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have no mallopt
        if mallopt is not None:
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
