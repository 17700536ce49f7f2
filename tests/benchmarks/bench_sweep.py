"""A sweep of a study on this machine's cores: the share of the workers' time that the runs themselves take.

The sweep runs in a clone of the last commit, whose store is empty, so that every run trains. The seconds come from the
end of the sweep's output. The rest to 100 % is the start of the workers, and a worker's wait for the other's last run.
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
SUMMARY = re.compile(
    r"(\d+) runs, 0 of them done; (\d+) workers.*?(\d+) s; the runs' own times add up to (\d+) s", re.S
)


def sweep_output(clone: Path) -> str:
    """Standard error of a sweep of the rows in this clone."""
    (clone / "stages" / STUDY / "dvc.lock").unlink()  # it marks the study as up to date
    command, env = [sys.executable, "-m", "annulus", "sweep", STUDY, *ROWS], {**os.environ, "PYTHONPATH": "src"}
    return subprocess.run(command, cwd=clone, env=env, text=True, stderr=subprocess.PIPE).stderr


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        clone = Path(name) / "annulus"
        subprocess.run(["git", "clone", "--quiet", ROOT, clone], check=True)
        output = sweep_output(clone)
    if (summary := SUMMARY.search(output)) is None:
        raise SystemExit(output)
    runs, workers, passed, own = map(int, summary.groups())
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
