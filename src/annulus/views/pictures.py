"""Pixels of Pillow's pictures, in place: a copy takes much of the time of a view (tests/benchmarks/bench_views.py).

Pillow exports its memory by Arrow's C data interface (https://arrow.apache.org/docs/format/CDataInterface.html), four
bytes a pixel. RGB leaves the fourth unused.
"""

import ctypes
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor


class _ArrowArray(ctypes.Structure):
    """`struct ArrowArray` of the C data interface."""


_ArrowArray._fields_ = [
    *((name, ctypes.c_int64) for name in ("length", "null_count", "offset", "n_buffers", "n_children")),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(_ArrowArray))),
    *((name, ctypes.c_void_p) for name in ("dictionary", "release", "private_data")),
]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]


def pixels(picture: Any) -> UInt8[Tensor, "3 h w"]:
    """The RGB bytes of a picture of Pillow. They may be its own memory: only read them, and do not change it."""
    picture = picture if picture.mode == "RGB" else picture.convert("RGB")
    try:
        _, capsule = picture.__arrow_c_array__()
    except (AttributeError, ValueError):  # Pillow before 11.2, or a picture above 16 MiB, which has several blocks
        return torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    colours = _ArrowArray.from_address(_pointer(capsule, b"arrow_array")).children[0].contents
    memory = (ctypes.c_uint8 * colours.length).from_address(colours.buffers[1])
    memory.owner = capsule  # which keeps the memory, and the tensor keeps `memory`
    return torch.frombuffer(memory, dtype=torch.uint8).view(picture.height, picture.width, 4)[:, :, :3].permute(2, 0, 1)
