"""Temporary folder below .annulus for unpacked files, removed after its process ends or is killed."""

import fcntl
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from annulus.running.checkout import main_checkout
from annulus.running.checkpoint import not_written


@contextmanager
def aside() -> Iterator[Path]:
    """Context with a locked folder below .annulus for unpacked files. It removes unlocked folders of killed processes.

    Raises:
        InputError: if it cannot be written or locked.
    """
    place = main_checkout() / ".annulus"
    with ExitStack() as held:
        try:
            place.mkdir(exist_ok=True)
            # Under one lock, since a new folder is not locked yet.
            with (place / "unpacking.lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                for folder in place.glob("unpacked-*"):
                    # FileNotFoundError: its process is ending.
                    with suppress(BlockingIOError, FileNotFoundError), (folder / "lock").open("a") as other:
                        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        shutil.rmtree(folder, ignore_errors=True)
                folder = Path(tempfile.mkdtemp(prefix="unpacked-", dir=place))
                fcntl.flock(held.enter_context((folder / "lock").open("a")), fcntl.LOCK_EX)
                held.callback(shutil.rmtree, folder, ignore_errors=True)  # before the lock is released
                (folder / "files").mkdir()
        except OSError as error:
            raise not_written(place, error) from error
        yield folder / "files"
