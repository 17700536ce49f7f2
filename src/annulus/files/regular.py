"""Reads regular files alone: reading a pipe or a device might never end."""

import errno
import stat
from pathlib import Path

from annulus.errors import InputError

POINTER = b"version https://git-lfs.github.com/spec/"  # first bytes of a file that Git LFS has not fetched
LONGEST_POINTER = 1024  # bytes, by the specification of Git LFS


class NotFetched(InputError):
    """Error for a pointer of Git LFS in place of a file."""


def check_regular(path: Path) -> None:
    """Raises an error unless the path is a regular file with its content.

    Raises:
        OSError: for a missing path, a folder, a pipe or a device; `strerror` names the reason.
        NotFetched: for a pointer of Git LFS.
    """
    about = path.stat()
    mode = about.st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Is a pipe or a device, not a file", str(path))
    if len(POINTER) < about.st_size <= LONGEST_POINTER:
        with path.open("rb") as file:
            if file.read(len(POINTER)) == POINTER:
                raise NotFetched(f"{path} is a pointer of Git LFS, not the file; run `git lfs pull` in its repository")


def read_text(path: Path) -> str:
    """Reads a text file in UTF-8.

    Raises:
        OSError, NotFetched: as `check_regular`, or if the file cannot be read.
        UnicodeDecodeError: if it is not UTF-8.
    """
    check_regular(path)
    return path.read_text(encoding="utf-8")
