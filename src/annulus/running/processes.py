"""A stage as several processes on this machine. One of them logs for all, and they end together."""

import os
import subprocess
import sys
import time
from collections.abc import Sequence

from annulus.device.threads import cores
from annulus.running.end import end_with

LAUNCHER = "ANNULUS_LAUNCHER"  # in each process's environment: the id of the process that started it
LOOK_SECONDS = 0.1
END_SECONDS = 3.0  # for a process to end after SIGTERM


def relaunch() -> None:
    """Runs this script as ANNULUS_PROCESSES processes (environment variable, default 1), and exits with their status.

    The number of processes changes no result, so it is not a parameter. On several machines torchrun starts the stage.

    Raises:
        SystemExit: when they have ended, with their status; for an invalid ANNULUS_PROCESSES.
    """
    if LAUNCHER in os.environ:
        end_with(int(os.environ[LAUNCHER]))
    processes = os.environ.get("ANNULUS_PROCESSES", "1")
    if processes == "1" or "WORLD_SIZE" in os.environ:
        return
    most = max(2, cores())  # two processes can be tried on one core too
    if not (processes.isdecimal() and len(processes) < 6 and 1 <= int(processes) <= most):
        raise SystemExit(
            f"ERROR: ANNULUS_PROCESSES is {processes!r}; give a number of processes, 1 to {most} on this machine"
        )
    raise SystemExit(_run(int(processes)))


def _run(count: int) -> int | str:
    """Runs the script in `count` processes as torchrun would; returns 0, or the status of a process that failed.

    This process stays, so that an interrupt of it, or a check that it lives, covers all processes.
    """
    from torch.distributed import TCPStore  # an import of seconds, which only this process needs here

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)  # their rendezvous
    shared = {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count), LAUNCHER: str(os.getpid())}
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    environment = {"OMP_NUM_THREADS": "1"} | os.environ | shared
    processes: list[subprocess.Popen] = []
    try:
        for rank in map(str, range(count)):
            own = environment | {"RANK": rank, "LOCAL_RANK": rank}
            # In a session of its own: a terminal's Ctrl-C reaches this process alone, which ends the others.
            process = subprocess.Popen([sys.executable, *sys.orig_argv[1:]], env=own, start_new_session=True)
            processes.append(process)
        return _status(processes)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()


def _status(processes: Sequence[subprocess.Popen]) -> int | str:
    """Waits until one has failed or all have ended; returns 0, or the status of a failure."""
    while True:
        codes = [process.poll() for process in processes]
        if failed := [status for status in codes if status]:
            killed = (
                f"ERROR: a process of {len(codes)} was killed by signal {-failed[0]}, mostly because memory ran out; "
            )
            return failed[0] if failed[0] > 0 else killed + "run again: the same command goes on"
        if all(status == 0 for status in codes):
            return 0
        time.sleep(LOOK_SECONDS)
