"""Resume state of a killed stage, for exactly the same stage, settings, inputs and code.

The state lies outside DVC's outputs, in `.annulus/checkpoints/STAGE/KEY/` of the main checkout. DVC deletes outputs
before a stage runs, and it deletes the copy of a queued experiment after its run. A stage that ends well marks its
state (`let_go`). The end of the next stage removes it (`clear`): only then has DVC stored the outputs, since the disk
of its cache may be full. The state of a killed stage that never runs again stays. Nothing else reads it, and
`rm -r .annulus/checkpoints` frees the space.
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
)  # least time between saves, about the work that a kill loses; longer, since only states known to be sound are saved
SHARE = 0.02  # saving takes at most this share of the time,
MOST_SECONDS = 300.0  # but this is the longest wait: a process paused in a save must not delay the next by an hour

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
    """SHA-256 of each part of prepared images, by its file's name: equal images in other folders have the same runs."""
    parts = sorted(folder.glob("*.safetensors"))  # each holds the fingerprints of its shards' images
    return {path.name: _sha256(path) for path in parts}


def hash_encoder(weights: Path) -> dict[str, str]:
    """SHA-256 of an encoder's weights and its JSON: untrained encoders of other images differ in the JSON alone."""
    return hash_files(weights, weights.with_suffix(".json"))


class LockedError(InputError):
    """Another process is computing the same; `held` returns True while one still does."""

    held: Callable[[], bool]


def not_written(place: Path, error: OSError) -> InputError:
    """Error of a place that cannot be written or locked (some clusters' file systems have no locks)."""
    if error.errno in NO_LOCKS:
        fault, way_out = "lock", "put the checkout on a file system that has locks (NFS 4, Lustre with `flock`)"
    else:
        fault, way_out = "write", "free some space or fix the permissions"
    return InputError(f"cannot {fault} {place}: {error.strerror}; {way_out}, then run again")


class Checkpoint:
    """The resume state of one computation, held by one process at a time.

    `key` holds everything that the result depends on: parameters (values and sections), `hash_files` of the inputs,
    `hash_code` of the code. Another key, or another version of torch or faiss, is another computation with its own
    state. `device` names the kind of device if only that kind can continue from the state.

        key = {"params": params, "images": hash_files(images), "code": hash_code(Path(__file__))}
        with Checkpoint("pretrain", key) as checkpoint:
            state = checkpoint.load()
            ...  # each step: if checkpoint.due: checkpoint.save(state)
            ...  # write the outputs
            checkpoint.let_go()

    Raises:
        LockedError: on entering, if another process computes the same, here or on another machine with the same
            files.
        InputError: on entering, if the folder cannot be written, or its file system has no locks.
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
            # Files of a process that was killed while saving, and the mark of a state that is used again.
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
        """State of a later part of this computation, under the same lock; `done` of this one removes it too."""
        other = copy(self)
        other.state = self.folder / f"{self.state.stem}-{part}.pt"
        return other

    def held(self) -> bool:
        """Returns True if a process holds this computation's lock."""
        try:
            with (self.folder / "lock").open() as lock:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return False
        except BlockingIOError:
            return True
        return False

    def load(self) -> dict[str, Any] | None:
        """Loads the saved state to the CPU; None without one.

        For a damaged state, or one of another computation, it logs a warning and returns None.
        """
        if not self.state.exists():
            return None
        try:
            check_regular(self.state)
            with zipfile.ZipFile(self.state) as archive:
                if (part := archive.testzip()) is not None:  # torch.load does not check the checksums
                    raise ValueError(part)
            content = torch.load(self.state, map_location="cpu", weights_only=True)
            if content["computation"] != self.folder.name:
                raise ValueError("it is of another computation")
            return content["state"]
        except Exception as error:  # on foreign bytes zipfile and torch raise about anything
            why = str(error).split("\n")[0]
            log.warning("WARNING: %s is damaged (%s); starting from the beginning", self.state, why)
            return None

    @property
    def due(self) -> bool:
        """True when enough time has passed since the last save."""
        return time.monotonic() > self._save_at

    def save(self, state: Mapping[str, Any]) -> None:
        """Replaces the saved state by tensors, numbers, text, and lists and dicts of them.

        Raises:
            InputError: if the disk is full; the state of the last save stays.
        """
        started = time.monotonic()
        write_torch(self.state, {"computation": self.folder.name, "state": dict(state)})
        saved = time.monotonic()
        self._save_at = saved + seconds_to_next_save(saved - started)

    def let_go(self) -> None:
        """Marks the state for `clear`, after the outputs are written; the same computation may still load it.

        Call it in the `with` block.
        """
        (self.folder / LET_GO).write_bytes(os.fsencode(Path.cwd()))

    def done(self) -> None:
        """Removes the state at once, for a result that nothing deletes. Call it in the `with` block."""
        for state in self.folder.glob("*.pt"):
            state.unlink()

    def _acquire(self) -> TextIO | None:
        """Takes the lock; returns None to try again, for example while another process removes the folder."""
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
                    return None  # nobody computes it: a sweep held the lock for a moment to test it (`held`)
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
        if not same:  # a lock on a removed file excludes nobody
            lock.close()
            return None
        lock.truncate(0)
        lock.write(f"{os.getpid()} {socket.gethostname()}")
        lock.flush()
        return lock


def seconds_to_next_save(seconds: float) -> float:
    """Seconds until the next save, after a save of `seconds`."""
    return max(SECONDS, min(seconds / SHARE, MOST_SECONDS))


def let_go(checkpoints: Iterable[Checkpoint]) -> None:
    """Marks the states of computations with written outputs for `clear`, except states that another process uses."""
    for checkpoint in checkpoints:
        with suppress(LockedError), checkpoint:
            checkpoint.let_go()


def clear() -> None:
    """Removes the states that stages marked in this folder (`let_go`): DVC has stored the outputs of earlier stages.

    Experiments that DVC runs in parallel have their own folders; a missing folder means that its experiment has ended.
    """
    for mark in (main_checkout() / ".annulus" / "checkpoints").glob(f"*/*/{LET_GO}"):
        # Open for writing, which NFS needs for a lock. States in use and other users' states stay, without an error.
        with suppress(OSError), (mark.parent / "lock").open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            place = Path(os.fsdecode(mark.read_bytes()))
            if place == Path.cwd() or not place.exists():
                for file in (*mark.parent.glob("*.pt"), mark):  # the lock last: a waiting process makes a new one
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
    """Converts a section of params.yaml, with its type (the only difference of some sections), or a path, to JSON."""
    if is_dataclass(value) and not isinstance(value, type):
        return {type(value).__name__: {field.name: getattr(value, field.name) for field in fields(value)}}
    if isinstance(value, Path):
        return value.as_posix()
    raise TypeError(f"a checkpoint key holds {type(value).__name__}, expected numbers, text, paths and sections")
