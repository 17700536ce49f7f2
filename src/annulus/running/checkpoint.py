"""Resume state of a killed stage: where it stood, for exactly the same stage, settings, inputs and code.

The state lies outside DVC's outputs, in `.annulus/checkpoints/STAGE/KEY/` of the main checkout: DVC deletes outputs
before a stage runs, and the copy in which a queued experiment runs afterwards. A stage that ends well lets its state
go: it is removed when the next stage ends, for only then has DVC kept the outputs (its cache's disk may be full). A
stage that was killed and never run again leaves it; nothing else reads it, and `rm -r .annulus/checkpoints` frees the
space.
"""

import errno
import fcntl
import hashlib
import json
import logging
import os
import shutil
import socket
import time
import zipfile
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from copy import copy
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, TextIO

import torch

from annulus.errors import InputError
from annulus.files.packed import write_torch
from annulus.files.regular import check_regular
from annulus.running.checkout import main_checkout

try:
    import faiss
except ModuleNotFoundError:  # k-means and kNN need it, other computations do not
    faiss = None

SECONDS = float(
    os.environ.get("ANNULUS_CHECKPOINT_SECONDS", 10)
)  # longest loss of work by a kill, or longer, for a state is saved only where it is known to be sound:
SHARE = 0.02  # saving takes at most this share of the time,
MOST_SECONDS = 300.0  # but one slow save (a process that was paused in it) costs the next no hour

LET_GO = "let-go"  # beside a state whose outputs are written

NO_LOCKS = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)

log = logging.getLogger("annulus")


def hash_files(*paths: Path) -> dict[str, str]:
    """SHA-256 of each file's content, by path; of a folder, of each file in it.

    Raises:
        InputError: when a file cannot be read.
    """
    files = [file for path in paths for file in (sorted(path.rglob("*")) if path.is_dir() else [path])]
    return {file.as_posix(): _sha256(file) for file in files if not file.is_dir()}


def hash_images(folder: Path) -> dict[str, str]:
    """SHA-256 of each part of prepared images, by its file's name: the same images elsewhere have the same runs."""
    parts = sorted(folder.glob("*.safetensors"))  # each tells what its shards hold
    return {path.name: _sha256(path) for path in parts}


def hash_encoder(weights: Path) -> dict[str, str]:
    """SHA-256 of an encoder's files: untrained ones of other images have equal weights, and their own JSON beside."""
    return hash_files(weights, weights.with_suffix(".json"))


class LockedError(InputError):
    """Another process computes the same at this moment; `held` tells whether one still does."""

    held: Callable[[], bool]


def not_written(place: Path, error: OSError) -> InputError:
    """The sentence for a place that cannot be written or, as on some clusters' file systems, locked."""
    if error.errno in NO_LOCKS:
        fault, way_out = "lock", "put the checkout on a file system that has locks (NFS 4, Lustre with `flock`)"
    else:
        fault, way_out = "write", "free some space or fix the permissions"
    return InputError(f"cannot {fault} {place}: {error.strerror}; {way_out}, then run again")


class Checkpoint:
    """The resume state of one computation, held by one process at a time.

    `key` is all that the result depends on: parameters (values and sections), `hash_files` of the inputs,
    `hash_code` of the code. Another key is another computation and never sees this state, and so is the same with
    another torch or faiss. `device` names the kind of device where only that kind can go on from the state.

        key = {"params": params, "images": hash_files(images), "code": hash_code(Path(__file__))}
        with Checkpoint("pretrain", key) as checkpoint:
            state = checkpoint.load()
            ...  # each step: if checkpoint.due: checkpoint.save(state)
            ...  # write the outputs
            checkpoint.let_go()

    Raises:
        LockedError: on entering, when another process computes the same, here or on another machine with the same
            files.
        InputError: on entering, when the folder cannot be written, or its file system has no locks.
    """

    def __init__(self, stage: str, key: Mapping[str, Any], device: str = "state"):
        versions = {"torch": torch.__version__, "faiss": faiss and faiss.__version__}
        content = json.dumps([stage, key, versions], sort_keys=True, default=_plain)
        name = hashlib.sha256(content.encode()).hexdigest()[:32]
        self.stage = stage
        self.folder = main_checkout() / ".annulus" / "checkpoints" / stage / name
        self.state = self.folder / f"{device}.pt"
        self._save_at = time.monotonic() + SECONDS

    def __enter__(self) -> "Checkpoint":
        try:
            while (lock := self._acquire()) is None:
                pass
            self._lock = lock
            # Of a process that was killed while saving, and the mark of a state that is used again.
            for leftover in (*self.folder.glob(".*.pt.*"), *self.folder.glob(LET_GO)):
                leftover.unlink()
        except OSError as error:
            raise not_written(self.folder, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        if not list(self.folder.glob("*.pt")):
            shutil.rmtree(self.folder, ignore_errors=True)  # another process may be waiting in it
        self._lock.close()

    def beside(self, part: str) -> "Checkpoint":
        """The state of a later part of this computation, under the same lock; `done` of this one forgets it too."""
        other = copy(self)
        other.state = self.folder / f"{self.state.stem}-{part}.pt"
        return other

    def held(self) -> bool:
        """Returns True if a process is computing this now."""
        try:
            with (self.folder / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def load(self) -> dict[str, Any] | None:
        """The saved state, on the CPU, or None without one.

        A damaged state, or one of another computation, is ignored with a warning.
        """
        if not self.state.exists():
            return None
        try:
            check_regular(self.state)
            with zipfile.ZipFile(self.state) as archive:
                if (part := archive.testzip()) is not None:  # torch.load does not look at the checksums
                    raise ValueError(part)
            content = torch.load(self.state, map_location="cpu", weights_only=True)
            if content["computation"] != self.folder.name:
                raise ValueError("it is of another computation")
            return content["state"]
        except Exception as error:  # on others' bytes zipfile and torch raise about anything
            why = str(error).split("\n")[0]
            log.warning("WARNING: %s is damaged (%s); starting from the beginning", self.state, why)
            return None

    @property
    def due(self) -> bool:
        """True when enough time has passed since the last save for another one."""
        return time.monotonic() > self._save_at

    def save(self, state: Mapping[str, Any]) -> None:
        """Replace the saved state: tensors, numbers, text, and lists and dicts of them.

        Raises:
            InputError: when the disk is full; the state saved before is untouched.
        """
        started = time.monotonic()
        write_torch(self.state, {"computation": self.folder.name, "state": dict(state)})
        saved = time.monotonic()
        self._save_at = saved + seconds_to_next_save(saved - started)

    def let_go(self) -> None:
        """The outputs are written: the state stays until `clear`, or for the same computation; in the `with` block."""
        (self.folder / LET_GO).write_bytes(os.fsencode(Path.cwd()))

    def done(self) -> None:
        """Forget the state at once, as a result is where nothing removes it; within the `with` block."""
        for state in self.folder.glob("*.pt"):
            state.unlink()

    def _acquire(self) -> TextIO | None:
        """The lock, or None when the holder before is removing the folder at this moment."""
        path = self.folder / "lock"
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = path.open("a+")
        except (FileNotFoundError, FileExistsError):
            if self.folder.is_file():
                raise
            return None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            same = os.path.samestat(path.stat(), os.fstat(lock.fileno()))
        except BlockingIOError:
            with lock:
                with suppress(BlockingIOError):
                    fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    return None  # nobody computes it: a sweep asked at this moment whether anybody does (`held`)
                lock.seek(0)
                pid, _, host = lock.read().partition(" ")
            where = f" on {host}" if host not in ("", socket.gethostname()) else ""
            locked = LockedError(
                f"{self.stage}: process {pid}{where} is already computing this variant, with its state in "
                f"{self.folder}; wait for it, or end it with `kill {pid}`{where}"
            )
            locked.held = self.held
            raise locked from None
        except FileNotFoundError:
            same = False
        if not same:  # a lock on a file that was removed since keeps nobody off
            lock.close()
            return None
        lock.truncate(0)
        lock.write(f"{os.getpid()} {socket.gethostname()}")
        lock.flush()
        return lock


def seconds_to_next_save(seconds: float) -> float:
    """Seconds until the next save, after one that took `seconds`."""
    return max(SECONDS, min(seconds / SHARE, MOST_SECONDS))


def let_go(checkpoints: Iterable[Checkpoint]) -> None:
    """Let the states of computations go whose outputs are written, but for those that another process uses now."""
    for checkpoint in checkpoints:
        with suppress(LockedError), checkpoint:
            checkpoint.let_go()


def clear() -> None:
    """Remove the states that were let go in this folder: a stage ends, so DVC has kept the outputs of those before.

    Experiments that DVC runs beside have folders of their own, and one that is gone has ended.
    """
    for mark in (main_checkout() / ".annulus" / "checkpoints").glob(f"*/*/{LET_GO}"):
        # Open for writing: NFS locks nothing else. What is in use, or another user's, stays; no stage fails by it.
        with suppress(OSError), (mark.parent / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place = Path(os.fsdecode(mark.read_bytes()))
            if place == Path.cwd() or not place.exists():
                for file in (*mark.parent.glob("*.pt"), mark):  # the lock last: whoever waits makes a new one
                    file.unlink()
                shutil.rmtree(mark.parent, ignore_errors=True)


def _sha256(path: Path) -> str:
    try:
        check_regular(path)
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}; run `dvc repro`") from error


def _plain(value: Any) -> Any:
    """A section of params.yaml with its type (some sections differ by nothing else), or a path."""
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: {field.name: getattr(value, field.name) for field in fields(value)}}
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"a checkpoint key holds {type(value).__name__}, expected numbers, text, paths and sections")
