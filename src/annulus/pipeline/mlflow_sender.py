"""Send the spool of `tracking` to MLflow: `python -m annulus.pipeline.mlflow_sender`, in a process of its own.

A record is deleted when it is wholly there. Records go where MLFLOW_TRACKING_URI points now, or else to mlflow.db,
newest first.
"""

import argparse
import fcntl
import json
import logging
import os
import select
import sqlite3
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from annulus.errors import InputError
from annulus.files.results import atomic_write
from annulus.pipeline.tracking import destination, shown, spool

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}

from mlflow import MlflowClient  # reads the environment

from annulus.pipeline.mlflow_runs import NO_MLFLOW, keep


def send(seconds: float = float("inf")) -> tuple[int, int]:
    """Send spooled records; start no further one after `seconds`.

    Returns:
        How many were sent, and how many are left.
    """
    deadline = time.monotonic() + seconds
    records = sorted(spool().glob("*.json"), reverse=True)
    sent = 0
    if records:
        with _locked():
            client, experiment = _connect(destination())
        for path in records:
            if time.monotonic() > deadline:
                break
            with _locked():
                if path.exists():  # no other sender was faster
                    keep(client, experiment, json.loads(path.read_text(encoding="utf-8")))
                    path.unlink()
                    sent += 1
    (spool() / "failed").unlink(missing_ok=True)
    return sent, len(list(spool().glob("*.json")))


def _connect(uri: str) -> tuple[MlflowClient, str]:
    """A client and the experiment's id. Call it locked: a store's first use is not safe for two at once."""
    artifacts = None
    if uri.startswith("sqlite:///"):
        database = Path(uri.removeprefix("sqlite:///").partition("?")[0]).resolve()
        artifacts = (database.parent / "mlartifacts").as_uri()  # else MLflow takes the working directory
        if not database.exists():
            # Created aside: a sender killed halfway would leave a store that nobody can open.
            with atomic_write(database) as temporary:
                MlflowClient(f"sqlite:///{temporary}").search_experiments(max_results=1)
        _check_database(database)
    client = MlflowClient(uri)
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "annulus")
    known = client.get_experiment_by_name(name)
    found = known.experiment_id if known else client.create_experiment(name, artifact_location=artifacts)
    if not found:  # MLflow's client takes 200 with an empty body for an experiment without fields
        raise InputError(f"the server's answer names no experiment: {NO_MLFLOW}")
    return client, found


def _check_database(path: Path) -> None:
    """MLflow tries for minutes to open what is no database; SQLite says so at once.

    Raises:
        InputError: when SQLite cannot read it.
    """
    try:
        with closing(sqlite3.connect(path, timeout=30)) as connection:
            connection.execute("PRAGMA schema_version")
    except sqlite3.Error as error:
        raise InputError(
            f"SQLite cannot read {path}: {error}; move it away, or name another store in MLFLOW_TRACKING_URI"
        ) from error


@contextmanager
def _locked() -> Iterator[None]:
    with (spool() / "lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main(argv: Sequence[str] | None = None) -> None:
    """Send everything, or what a number of seconds allows, and say what was done."""
    parser = argparse.ArgumentParser(description="Send to MLflow what it has not got yet.")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="start no record after this")
    parser.add_argument("--wait", type=float, help="seconds to wait for a line on stdin; without one nothing is sent")
    arguments = parser.parse_args(argv)
    logging.disable()  # lines of MLflow and urllib3 repeat the address; the last sentence says what is wrong
    # MLflow's own take four minutes and more to give up.
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "30")
    if arguments.wait is not None and not _called(arguments.wait):
        return
    try:
        sent, left = send(arguments.seconds)
    except Exception as error:  # of many kinds, by destination; a stage shows the last line
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        raise SystemExit(shown(kind + " ".join(str(error).split()))) from error
    print(f"{sent} sent to {shown(destination())}, {left} left")


def _called(seconds: float) -> bool:
    """Open the store, which takes longer than sending; then whether a line comes in time."""
    with suppress(Exception):  # sending says what is wrong
        spool().mkdir(parents=True, exist_ok=True)
        with _locked():
            _connect(destination())
    ready, _, _ = select.select([sys.stdin], [], [], seconds)
    return bool(ready and sys.stdin.readline())


if __name__ == "__main__":
    main()
