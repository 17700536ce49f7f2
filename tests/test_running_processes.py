"""A script in several processes: their number, environment and end."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from annulus.running import processes as module
from annulus.running.processes import relaunch

SCRIPT = """
import os, signal, sys, time
from pathlib import Path
from annulus.running.processes import relaunch

relaunch()
Path(sys.argv[1], os.environ["RANK"]).write_text(f"{os.getpid()} {os.environ['WORLD_SIZE']}")
while len(list(Path(sys.argv[1]).glob("[0-9]"))) < int(os.environ["WORLD_SIZE"]):
    time.sleep(0.01)
"""


@pytest.fixture
def alone(monkeypatch):
    """Environment without other processes, and four cores."""
    for name in ("WORLD_SIZE", "ANNULUS_PROCESSES", module.LAUNCHER):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module, "cores", lambda: 4)


def start(folder: Path, then: str, count: int = 2) -> subprocess.Popen:
    """Starts a script that records each of its processes and then runs `then`."""
    path = folder / "script.py"
    path.write_text(SCRIPT + then)
    environment = {**os.environ, "ANNULUS_PROCESSES": str(count), "PYTHONPATH": str(Path(module.__file__).parents[2])}
    words = [sys.executable, str(path), str(folder)]
    return subprocess.Popen(words, env=environment, stderr=subprocess.PIPE, text=True)


def pids(folder: Path, count: int = 2) -> list[int]:
    """Waits until all processes of the script have begun and returns their ids."""
    while not all((folder / str(rank)).exists() and (folder / str(rank)).read_text() for rank in range(count)):
        time.sleep(0.01)
    records = [(folder / str(rank)).read_text().split() for rank in range(count)]
    assert {size for _, size in records} == {str(count)}
    return [int(pid) for pid, _ in records]


def ends(pid: int) -> bool:
    """Waits until a process has ended or is a zombie, and returns True."""
    status = Path(f"/proc/{pid}/status")
    with suppress(FileNotFoundError, ProcessLookupError):
        while "State:\tZ" not in status.read_text(encoding="utf-8"):
            time.sleep(0.01)
    return True


def test_one_process_and_one_of_several_go_on_here(alone, monkeypatch):
    relaunch()
    monkeypatch.setenv("ANNULUS_PROCESSES", "1")
    relaunch()
    monkeypatch.setenv("ANNULUS_PROCESSES", "3")
    monkeypatch.setenv("WORLD_SIZE", "3")
    relaunch()


@pytest.mark.parametrize("processes", ["0", "two", "5", "9" * 20, "9" * 5000])
def test_another_number_than_of_cores_is_refused(processes, alone, monkeypatch):
    monkeypatch.setenv("ANNULUS_PROCESSES", processes)
    with pytest.raises(SystemExit, match=f"ERROR: ANNULUS_PROCESSES is '{processes}'; .* 1 to 4 on this machine"):
        relaunch()


@pytest.mark.parametrize(
    ("then", "status", "words"),
    [
        ("", 0, ""),
        ("if os.environ['RANK'] == '1': sys.exit(3)\ntime.sleep(100)", 3, ""),
        (
            "if os.environ['RANK'] == '1': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(100)",
            1,
            "ERROR: a process of 2 was killed by signal 9, mostly because memory ran out; run again",
        ),
    ],
)
def test_all_end_when_one_fails_and_their_status_is_the_script_s(then, status, words, tmp_path):
    with start(tmp_path, then) as script:
        processes = pids(tmp_path)
        _, errors = script.communicate()
    assert script.returncode == status
    assert words in errors
    assert all(map(ends, processes))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_all_end_with_the_process_that_started_them(how, tmp_path):
    with start(tmp_path, "time.sleep(100)") as script:
        processes = pids(tmp_path)
        script.send_signal(how)
        assert all(map(ends, processes))
