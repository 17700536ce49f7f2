"""A sweep of a study on this machine's cores: how much of the workers' time the runs themselves take.

In a clone of the last commit, whose store is empty, so that every run trains. The seconds are those that the sweep says
at its end. What is missing to 100 % is the start of the workers, and one that waits for the other's last run.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import torch
from timing import ROOT, write

STUDY, ROWS = "algorithms", ("IR-nce", "BALL", "RING", "CMC", "MoCo", "MoCoRing")
SAID = re.compile(r"(\d+) runs, 0 of them done; (\d+) workers.*?(\d+) s; the runs' own times add up to (\d+) s", re.S)


def said_by_a_sweep(clone: Path) -> str:
    """What a sweep of the rows in this clone writes."""
    (clone / "stages" / STUDY / "dvc.lock").unlink()  # it says that nothing need be run
    command, env = [sys.executable, "-m", "annulus", "sweep", STUDY, *ROWS], {**os.environ, "PYTHONPATH": "src"}
    return subprocess.run(command, cwd=clone, env=env, text=True, stderr=subprocess.PIPE).stderr


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        clone = Path(name) / "annulus"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        said = said_by_a_sweep(clone)
    if (found := SAID.search(said)) is None:
        raise SystemExit(said)
    runs, workers, passed, own = map(int, found.groups())
    write(
        "sweep",
        torch.device("cpu"),
        runs=runs,
        workers=workers,
        seconds=passed,
        runs_own_seconds=own,
        percent_of_the_workers_time=100 * own / (passed * workers),
    )


if __name__ == "__main__":
    main()
