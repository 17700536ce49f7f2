"""Reading of regular files only: reading a pipe or a device would never end."""

import errno
import stat
from pathlib import Path


def check_regular(path: Path) -> None:
    """Refuse a path that is not a regular file.

    Raises:
        OSError: for a missing path, a folder, a pipe or a device; `strerror` names the reason.
    """
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, "Is a directory", str(path))
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "Is a pipe or a device, not a file", str(path))


def read_text(path: Path) -> str:
    """The text of a file in UTF-8.

    Raises:
        OSError: as `check_regular`, or when the file cannot be read.
        UnicodeDecodeError: when it is not UTF-8.
    """
    check_regular(path)
    return path.read_text(encoding="utf-8")
