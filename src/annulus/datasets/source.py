"""`Source`: an image set before its pixels are read: the labels of all rows, and a function that reads some rows."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.errors import InputError, abridge
from annulus.running.checkout import main_checkout


@dataclass(frozen=True)
class FileList(Sequence[Path]):
    """Paths by number, stored as folder number and name in bytes, since a million paths would take half a gigabyte."""

    root: Path
    folders: Sequence[str]
    folder_index: Int64[Tensor, " n"]
    names: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> Path:
        return self.root / self.folders[self.folder_index[number]] / os.fsdecode(self.names[number])

    def some(self, rows: Int64[Tensor, " k"]) -> list[Path]:
        """The paths of some rows."""
        return [self[row] for row in rows.tolist()]

    def describe(self, rows: Int64[Tensor, " k"], bad: Mapping[int, str]) -> dict[int, str]:
        """Describes bad files by position in `rows`: the path relative to the root, and the reason."""
        paths = {place: os.path.relpath(self[int(rows[place])], self.root) for place in bad}
        return {place: f"{paths[place]} ({reason})" for place, reason in bad.items()}


@dataclass(frozen=True)
class Source:
    """One split of an image set.

    `read(rows)` returns the images of these rows, and the reasons of unreadable images (black) by position in `rows`.
    `read_masks(rows)` returns the classes of their pixels.
    """

    classes: tuple[str, ...]
    labels: Int64[Tensor, " n"]
    read: Callable[[Int64[Tensor, " k"]], tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]]
    files: FileList | None = None  # of images that are files, which can be packed a few at a time
    read_masks: Callable[[Int64[Tensor, " k"]], UInt8[Tensor, "k h w"]] | None = None


def resolve_root(key: str, root: str) -> Path:
    """Resolves a folder from this key of the parameters; ~ is a home folder.

    A relative path starts at the main checkout, although `dvc exp run --temp` and queued experiments run stages in
    another folder.

    Raises:
        InputError: if the path is empty or not a possible folder, or cannot be read.
    """
    if not root.strip():
        raise InputError(f"{key}: {root!r} is empty; name a folder")
    try:
        path = main_checkout() / Path(root).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):  # the caller that opens it describes the expected content
        return path
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~nobody; ValueError: not a path
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{key}: {abridge(root)} cannot be opened ({reason}); name another folder") from error
    return path


def encoded(names: Sequence[str]) -> np.ndarray:
    """Encodes file names for `FileList`."""
    return np.array([os.fsencode(name) for name in names], np.bytes_)
