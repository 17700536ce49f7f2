"""The computing device and its settings, which come from the environment and not from params.yaml."""

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
    """Returns the GPU if there is one, else the CPU, and applies the settings. Each process calls this once.

    Raises:
        InputError: if ANNULUS_PRECISION, ANNULUS_DETERMINISTIC or ANNULUS_COMPILE has an unknown value, or one that the
            machine does not support.
    """
    if torch.get_num_threads() > cores():  # torch does not see a container's limit
        torch.set_num_threads(cores())
    same_bits = deterministic()
    compiler = os.environ.get("CXX", "g++")  # torch uses the same
    if compiling() != "no" and shutil.which(compiler) is None:
        raise InputError(
            f"ANNULUS_COMPILE is {compiling()}, and there is no compiler {compiler!r}; install one (on Debian: g++), "
            "name another in CXX, or unset ANNULUS_COMPILE"
        )
    if torch.cuda.is_available():
        if same_bits:
            _compute_deterministically()
        else:
            torch.backends.cudnn.benchmark = True  # all batches have one size, so the search for convolutions runs once
        return torch.device("cuda")
    if half_precision() and not torch.cpu._is_amx_tile_supported():
        raise InputError(
            "ANNULUS_PRECISION is bf16, and this processor has no AMX, without which bfloat16 is slow; unset it, "
            "or use a processor with AMX"
        )
    keep_freed_memory()
    return torch.device("cpu")


def gpu_names() -> list[str]:
    """Names of the visible GPUs, for CUDA_VISIBLE_DEVICES of a child process."""
    count, visible = torch.cuda.device_count(), os.environ.get("CUDA_VISIBLE_DEVICES")
    return [*map(str, range(count))] if visible is None else [name.strip() for name in visible.split(",")][:count]


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
    """Autocast for the encoder: bfloat16 on a GPU; on a CPU float32, or bfloat16 if ANNULUS_PRECISION is bf16.

    If the caller is under autocast already, its type stays.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, dtype=torch.get_autocast_dtype(device.type))
    enabled = device.type == "cuda" or half_precision()
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def without_autocast(device: torch.device) -> torch.autocast:
    """Context without autocast, for scores and bounds: their type stays although the caller is under autocast."""
    return torch.autocast(device.type, enabled=False)


def half_precision() -> bool:
    """Returns True if ANNULUS_PRECISION selects bfloat16 for encoders on a CPU: faster, with other digits.

    Raises:
        InputError: if ANNULUS_PRECISION has an unknown value.
    """
    return _environment_choice("ANNULUS_PRECISION", ("float32", "bf16"), "float32") == "bf16"


def deterministic() -> bool:
    """Returns True if ANNULUS_DETERMINISTIC is yes: a GPU computes the same bits in each run, more slowly.

    A CPU always computes the same bits. The switch is not in params.yaml: it changes results by a GPU's rounding alone.

    Raises:
        InputError: if ANNULUS_DETERMINISTIC has an unknown value.
    """
    return _environment_choice("ANNULUS_DETERMINISTIC", ("yes", "no"), "no") == "yes"


def compiling() -> str:
    """Mode of torch.compile in training: no, yes, or graphs (a GPU replays the compiled code as CUDA graphs).

    The switch is not in params.yaml: it changes results by rounding alone.

    Raises:
        InputError: if ANNULUS_COMPILE has an unknown value.
    """
    return _environment_choice("ANNULUS_COMPILE", ("no", "yes", "graphs"), "no")


def _environment_choice(variable: str, choices: tuple[str, ...], default: str) -> str:
    """Returns an environment variable's value, checked against its choices; `default` if it is unset."""
    value = os.environ.get(variable, default)
    if value not in choices:
        raise InputError(f"{variable} is {value!r}; give {' or '.join(choices)}, or unset it for {default}")
    return value


def described(device: torch.device, threads: int = 1) -> str:
    """Kind and settings of the device. Two devices with one description compute the same digits, or nearly."""
    return " ".join([device.type, *ways(device, threads)])


def ways(device: torch.device, threads: int = 1) -> list[str]:
    """Departures from the default computation on a device: several threads of a CPU sum in another order than one."""
    if device.type == "cuda":
        own = {"deterministic": deterministic()}
    else:
        own = {"bf16": half_precision(), f"{threads} threads": threads > 1}
    return [word for word, is_so in (own | {"compiled": compiling() != "no"}).items() if is_so]


def _compute_deterministically() -> None:
    """Lets torch run deterministic operators alone on a GPU; it raises for an operator without such a form."""
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # read at cuBLAS's first product
    torch.backends.cudnn.deterministic, torch.backends.cudnn.benchmark = True, False
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # this library reads only memory that it has written


def keep_freed_memory() -> None:
    """Lets the allocator reuse large blocks. By default glibc returns each to the system and faults its pages in anew.

    A training step allocates hundreds of megabytes of activations. By default page faults took a third of the step's
    time (ResNet-18, 32 px, batch 256, two cores).
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have no mallopt
        if mallopt is not None:
            mallopt(M_MMAP_MAX, 0)
            mallopt(M_TRIM_THRESHOLD, 2**31 - 1)
