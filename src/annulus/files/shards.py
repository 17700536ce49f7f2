"""Shards: files of concatenated images, as pixels or as JPEG, and the index of their positions.

Reads are by position. As with a memory map, all processes share the system's page cache. If a file is cut during a
read, this raises an error; a memory map would end the process.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple, Self
from weakref import finalize

import numpy as np
import torch
from jaxtyping import Int32, Int64, UInt8
from torch import Tensor

from annulus.files.packed import Damaged
from annulus.files.regular import check_regular

Kind = Literal["raw", "jpeg"]
LONGEST = 2  # the longer side, in shorter sides: a batch takes the memory of its largest image


class Places(NamedTuple):
    """Position of each image (shard, first byte, number of bytes), height and width, and fingerprint of the pixels.

    Several exist at a time for a million images, so each type is as small as its numbers allow.
    """

    shard: Int32[Tensor, " n"]
    start: Int64[Tensor, " n"]
    length: Int32[Tensor, " n"]
    sizes: Int32[Tensor, "n 2"]
    fingerprint: Int64[Tensor, " n"]

    def some(self, index: Int64[Tensor, " k"]) -> Self:
        return type(self)(*(field[index] for field in self))


NUMBERS, SMALL = (torch.int64, "n"), (torch.int32, "n")
PLACES = {"shard": SMALL, "start": NUMBERS, "length": SMALL, "sizes": (torch.int32, "n 2"), "fingerprint": NUMBERS}


class Shards:
    """Shard files by number, each opened at its first read. `lengths` maps file names to bytes."""

    def __init__(self, folder: Path, lengths: Mapping[str, int]) -> None:
        """Checks each file.

        Raises:
            InputError: if one is missing or has another length.
        """
        self.folder, self.lengths = folder, dict(lengths)
        self.paths = [folder / name for name in lengths]
        self._opened: dict[int, int] = {}
        self._opening = Lock()
        finalize(self, _close, self._opened)  # at the interpreter's exit, __del__ would run without `os`
        for path, length in zip(self.paths, lengths.values(), strict=True):
            try:
                check_regular(path)
                size = path.stat().st_size
            except OSError as error:
                raise Damaged(path, f"cannot be opened ({error.strerror})", "prepare") from error
            if size != length:
                raise Damaged(path, f"holds {size:,} bytes, expected {length:,}", "prepare")

    def read(self, shard: int, start: int, into: UInt8[np.ndarray, "..."]) -> None:
        """Fills an array with the bytes from `start` on.

        Raises:
            InputError: if the file ends before.
        """
        try:
            with self._opening:
                if shard not in self._opened:
                    self._opened[shard] = os.open(self.paths[shard], os.O_RDONLY)
            count = os.preadv(self._opened[shard], [into], start)
        except OSError as error:
            raise Damaged(self.paths[shard], f"cannot be read ({error.strerror})", "prepare") from error
        if count != into.nbytes:
            raise Damaged(self.paths[shard], f"ends after {start + count:,} bytes, within an image", "prepare")

    def link(self, folder: Path) -> None:
        """Adds the files to another folder: as hard links if the file system has them, else as copies.

        Raises:
            OSError: if the folder cannot be written.
        """
        for path in self.paths:
            try:
                os.link(path, folder / path.name)
            except FileExistsError:  # another split of the same shards
                continue
            except OSError:
                shutil.copyfile(path, folder / path.name)

    def __reduce__(self) -> tuple:
        return type(self), (self.folder, self.lengths)  # another process opens them itself


def _close(opened: dict[int, int]) -> None:
    while opened:
        os.close(opened.popitem()[1])
