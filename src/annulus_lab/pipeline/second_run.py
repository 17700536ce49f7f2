"""Refuses a second `dvc exp run` of a project while a stage of the first one runs.

DVC writes the values of `-S` into params.yaml before it checks for another run (its issue 8516). The first run would
read these values at its next stage. Before DVC writes, it takes the lock of its stash. Here a stage holds this lock.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from annulus.running.checkout import first

STASH = "refs/exps/stash"  # of runs in the workspace; `--queue` has another
SECONDS = 0.2  # between attempts, while DVC itself writes the stash


@contextmanager
def refuse_second_run() -> Iterator[None]:
    """Holds DVC's lock of new runs in the workspace, if DVC runs this stage there."""
    folder = Path(".dvc/tmp").resolve()
    if "DVC_STAGE" not in os.environ or not folder.is_dir() or not first():
        yield
        return
    from dvc.fs import localfs
    from dvc.lock import LockError
    from dvc.rwlock import rwlock

    (folder / "exps").mkdir(exist_ok=True)
    with ExitStack() as locks:
        while True:
            try:
                locks.enter_context(rwlock(str(folder / "exps"), localfs, " ".join(sys.orig_argv), [STASH], [], False))
                break
            except LockError:
                time.sleep(SECONDS)
        yield
