"""Shared by the readers of archives and shards: room on the disk, the fault of a file, several shards as one."""

import errno
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from annulus.datasets.found import Found
from annulus.errors import InputError, require

KEPT_FREE = 2**30  # bytes of the disk that no archive may fill


def joined(parts: Sequence[Found]) -> Found:
    """Several shards as one. Below `unpacked` each has a folder of its own."""
    root = Path(os.path.commonpath([part.root for part in parts]))
    names = [os.path.relpath(part.root / name, root) for part in parts for name in part.names]
    classes, splits, others = (
        [value for part in parts for value in getattr(part, field)] for field in ("classes", "splits", "others")
    )
    return Found(parts[0].kind, root, tuple(names), tuple(classes), tuple(splits), tuple(others))


def check_room(folder: Path, needs: int, path: Path) -> None:
    free = shutil.disk_usage(folder if folder.exists() else folder.parent).free
    if needs > free - KEPT_FREE:
        raise InputError(
            f"{path} unpacks to {needs:,} bytes, and {folder} has {free:,} free, of which {KEPT_FREE:,} stay; free "
            "some space, or unpack it elsewhere and give that folder"
        )


def check_names(path: Path, names: Iterable[str]) -> None:
    """Refuse an archive with two files of one name, of which the later would take the place of the former."""
    counts = Counter(map(os.path.normpath, names))
    if twice := [name for name, often in counts.items() if often > 1]:
        raise InputError(f"{path} has {len(twice)} names twice, {twice[0]!r} first; pack it again")


def needs(what: str, package: str) -> None:
    try:
        require(f"annulus.datasets, for {what},", "formats", [package])
    except ModuleNotFoundError as error:
        raise InputError(str(error)) from None


@contextmanager
def sound(path: Path) -> Iterator[None]:
    """A broken file as one sentence."""
    try:
        yield
    except (InputError, MemoryError):
        raise
    except Exception as error:  # on broken bytes readers of archives and tables raise about anything
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            raise InputError(f"{path} is not unpacked: the disk is full; free some space, then run again") from error
        short = " ".join(str(error).split())[:200] or type(error).__name__
        raise InputError(f"{path} cannot be read ({short}); make or copy it again") from error
