"""The checkout around a stage: its folder, its state in git, and the first process of a group."""

import os
import subprocess
import time
from pathlib import Path

STARTED = time.time()  # start of this process, after some of its imports


def main_checkout() -> Path:
    """Root of the git repository, from any of its DVC projects and from the temporary copies of queued experiments.

    Without git: the root of the DVC project. Without DVC too: the working directory.
    """
    start = Path(os.environ.get("DVC_ROOT") or ".").resolve()
    return next((place for place in (start, *start.parents) if (place / ".git").exists()), start)


def project() -> Path:
    """Path of the running DVC project in the checkout: `.` for the main line, `stages/law` for a study."""
    return Path(os.environ.get("DVC_ROOT") or ".").resolve().relative_to(main_checkout())


def first() -> bool:
    """Returns True in the one of several processes that logs, writes and records."""
    return os.environ.get("RANK", "0") == "0"


def git(*words: str, folder: Path | None = None) -> str | None:
    """Output of git; None if it fails, prints nothing, or takes more than five seconds."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return (done.stdout.strip() or None) if done.returncode == 0 else None
