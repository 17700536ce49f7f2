"""Interface of every image set before its pixels are read: the labels of all rows, and a function that reads some."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.errors import InputError, shown


@dataclass(frozen=True)
class Files(Sequence[Path]):
    """Files by number, each a name in one of a few folders, in the file system's bytes: a million paths would take half
    a gigabyte."""

    root: Path
    folders: Sequence[str]
    folder_of: Int64[Tensor, " n"]
    names: np.ndarray

    def __len__(self) -> int:
        return len(self.names)

    def __getitem__(self, number: int) -> Path:
        return self.root / self.folders[self.folder_of[number]] / os.fsdecode(self.names[number])

    def some(self, rows: Int64[Tensor, " k"]) -> list[Path]:
        """Some of the files."""
        return [self[row] for row in rows.tolist()]

    def described(self, rows: Int64[Tensor, " k"], bad: Mapping[int, str]) -> dict[int, str]:
        """Descriptions of bad files by position in `rows`: the path as seen from the root, and the reason."""
        return {place: f"{os.path.relpath(self[int(rows[place])], self.root)} ({why})" for place, why in bad.items()}


@dataclass(frozen=True)
class Source:
    """One split. `read(rows)` gives the images of these rows, and for those that could not be read, in whose place
    the images are black, the reason by position in `rows`. `read_masks(rows)` gives the classes of their pixels."""

    classes: tuple[str, ...]
    labels: Int64[Tensor, " n"]
    read: Callable[[Int64[Tensor, " k"]], tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]]
    files: Files | None = None  # where the images are files, which can be packed without being read together
    read_masks: Callable[[Int64[Tensor, " k"]], UInt8[Tensor, "k h w"]] | None = None


def root_of(key: str, root: str) -> Path:
    """Folder under this key of the parameters; ~ is a home folder.

    A relative path starts at DVC's project, wherever DVC runs the stage (`dvc exp run --temp` and queued experiments
    run it in another folder).

    Raises:
        InputError: when the path is empty or not a possible folder, or may not be read.
    """
    if not root.strip():
        raise InputError(f"{key}: {root!r} names nothing; name a folder")
    try:
        path = Path(os.environ.get("DVC_ROOT") or ".") / Path(root).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):  # whoever opens it says what should be there
        return path
    except (OSError, RuntimeError, ValueError) as error:  # RuntimeError: ~nobody; ValueError: no path at all
        why = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{key}: {shown(root)} cannot be opened ({why}); name a folder that can be") from error
    return path


def encoded(names: Sequence[str]) -> np.ndarray:
    """File names as `Files` keeps them."""
    return np.array([os.fsencode(name) for name in names], np.bytes_)
