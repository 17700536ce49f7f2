"""Functions of all readers of archives and shards: space on the disk, errors of a file, several shards as one."""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from annulus.datasets.decode import reason
from annulus.datasets.listing import ImageListing
from annulus.errors import InputError, require
from annulus.files.regular import check_regular

RESERVED = 2**30  # bytes of the disk that unpacking leaves free


def joined(parts: Sequence[ImageListing]) -> ImageListing:
    """Joins the listings of several shards. Each shard has its own folder below `unpacked`."""
    root = Path(os.path.commonpath([part.root for part in parts]))
    names = [os.path.relpath(part.root / name, root) for part in parts for name in part.names]
    classes, splits, others = (
        [value for part in parts for value in getattr(part, field)] for field in ("classes", "splits", "others")
    )
    return ImageListing(parts[0].kind, root, tuple(names), tuple(classes), tuple(splits), tuple(others))


def check_room(folder: Path, needs: int, path: Path) -> None:
    """Raises InputError unless the disk of `folder` has space for `needs` bytes of `path`."""
    free = shutil.disk_usage(folder if folder.exists() else folder.parent).free
    if needs > free - RESERVED:
        raise InputError(
            f"{path} unpacks to {needs:,} bytes, and {folder} has {free:,} free, {RESERVED:,} of them reserved; free "
            "some space, or unpack it elsewhere and give that folder"
        )


def check_names(path: Path, names: Iterable[str]) -> None:
    """Raises InputError if an archive has two files of one name: the later one would overwrite the former."""
    counts = Counter(map(os.path.normpath, names))
    if twice := [name for name, often in counts.items() if often > 1]:
        raise InputError(f"{path} has {len(twice)} names twice, {twice[0]!r} first; pack it again")


def needs(what: str, package: str) -> None:
    """Raises InputError if the package that reads `what` is not installed."""
    try:
        require(f"annulus.datasets, for {what},", "formats", [package])
    except ModuleNotFoundError as error:
        raise InputError(str(error)) from None


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """Context that turns any error about a file into an InputError. `path` may be a folder of files."""
    try:
        if not path.is_dir():
            check_regular(path)  # a pipe would be waited for
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # on broken bytes readers of archives and tables raise about anything
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise InputError(f"{path} cannot be unpacked: the disk is full; free some space, then run again") from error
        short = reason(error)[:200]
        raise InputError(f"{path} cannot be read ({short}); make or copy it again") from error
