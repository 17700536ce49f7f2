"""A study's stages as DVC knows them: the one place that uses DVC's Python interface, which DVC does not document.

tests/test_sweep_stages.py asks the installed DVC for each piece of it.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from dvc.exceptions import DvcException
from dvc.lock import LockBase, LockError
from dvc.repo import Repo

from annulus.errors import InputError

log = logging.getLogger("annulus")


class Stage(NamedTuple):
    """A stage of a dvc.yaml, of a matrix each one: `train@MoCo`."""

    name: str
    command: str  # with all its values
    changed: bool | None = None  # whether `dvc repro` would run it; None: not asked, or it runs at this moment


def read_stages(pipeline: Path, asked: Callable[[str], bool]) -> list[Stage]:
    """The stages of a dvc.yaml in its order; DVC compares only the files of stages in `asked`.

    They are read while no other process changes DVC's records, and before anything computes: a `dvc repro` whose stage
    has ended gives up when it cannot have DVC's lock for three seconds.

    Raises:
        InputError: when DVC cannot read the file.
    """
    try:
        with Repo() as repo:
            stages = [stage for stage in repo.index.stages if stage.addressing.startswith(f"{pipeline}:")]
            with _waited(repo.lock):
                return [
                    Stage(stage.name, stage.cmd, _changed(stage.changed) if asked(stage.name) else None)
                    for stage in stages
                ]
    except DvcException as error:
        raise InputError(f"{pipeline}: {error}") from error


@contextmanager
def _waited(lock: LockBase) -> Iterator[None]:
    """DVC's lock, which a `dvc repro` has between its stages."""
    while not lock.is_locked:
        try:
            lock.lock()  # tries for three seconds
        except LockError:
            log.info("another dvc command has DVC's lock; waiting for it")
    try:
        yield
    finally:
        lock.unlock()


def _changed(ask: Callable[[], bool]) -> bool | None:
    try:
        return ask()
    except LockError:  # another process writes the stage's outputs
        return None
