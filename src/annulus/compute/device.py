"""The device that computes, and its settings. None of them is a parameter."""

import ctypes
import os
import sys

import torch

from annulus.errors import InputError

# glibc's mallopt options (malloc.h).
M_TRIM_THRESHOLD, M_MMAP_MAX = -1, -4


def pick_device() -> torch.device:
    """The GPU when there is one, else the CPU.

    Raises:
        InputError: when ANNULUS_PRECISION asks for what is unknown, or for what the CPU does not have.
    """
    if torch.cuda.is_available():
        return torch.device("cuda")
    if half_precision() and not torch.cpu._is_amx_tile_supported():
        raise InputError(
            "ANNULUS_PRECISION is bf16, and this processor has no AMX, which makes bfloat16 fast; unset it, "
            "or take a processor that has"
        )
    keep_freed_memory()
    return torch.device("cpu")


def autocast(device: torch.device) -> torch.autocast:
    """bfloat16 for the encoder on a GPU; on a CPU float32, or bfloat16 where ANNULUS_PRECISION is bf16."""
    enabled = device.type == "cuda" or half_precision()
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


def half_precision() -> bool:
    """Whether encoders compute in bfloat16 on a CPU: faster, with other digits, and so for those who ask for it.

    Raises:
        InputError: when ANNULUS_PRECISION is unknown.
    """
    asked = os.environ.get("ANNULUS_PRECISION", "float32")
    if asked not in ("float32", "bf16"):
        raise InputError(f"ANNULUS_PRECISION is {asked!r}; give float32 or bf16, or unset it for float32")
    return asked == "bf16"


def described(device: torch.device) -> str:
    """The kind of device and what its encoders compute in: two of one description give the same digits, or nearly."""
    return f"{device.type} bf16" if device.type == "cpu" and half_precision() else device.type


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
