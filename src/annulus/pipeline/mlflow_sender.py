"""Send the spool of `tracking` to MLflow: `python -m annulus.pipeline.mlflow_sender`, in a process of its own.

Each record is one MLflow run, made and completed however often the sending is interrupted. A record is
deleted when it is wholly there. Records go where MLFLOW_TRACKING_URI points now, or else to mlflow.db,
newest first.
"""

import argparse
import fcntl
import json
import logging
import os
import re
import select
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.results import atomic_write
from annulus.pipeline.tracking import destination, shown, spool

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}

from mlflow import MlflowClient  # reads the environment
from mlflow.entities import Metric, Param, Run, RunTag

# MLflow's limits: characters of a value, entries of one request.
VALUE_LIMIT, PARAMS_LIMIT, METRICS_LIMIT = 6000, 100, 1000

NO_MLFLOW = "it may be no MLflow server; check the address in MLFLOW_TRACKING_URI"


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
                    _send_one(client, experiment, json.loads(path.read_text()))
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


def _send_one(client: MlflowClient, experiment: str, record: Mapping[str, Any]) -> None:
    """Make a record a run, or complete the run of an earlier try: what is there already stays as it is."""
    found = client.search_runs([experiment], f"tags.`annulus.record` = '{record['id']}'")
    if found and found[0].info.status == "FINISHED":
        return
    run = (found[0] if found else _create_run(client, experiment, record)).info.run_id
    ended = round(record["ended"] * 1000)
    params = [
        Param(_name(name, part), value[start : start + VALUE_LIMIT])
        for name, value in record["params"].items()
        for part, start in enumerate(range(0, max(len(value), 1), VALUE_LIMIT), start=1)
    ]
    last = record["history"][-1]["epoch"] if record["history"] else 0
    rows = [(row["epoch"], row) for row in record["history"]] + [(last, record["metrics"])]
    points = [(name, x, epoch) for epoch, row in rows for name, x in row.items()]
    numbers = [Metric(_name(name), x, ended, step) for name, x, step in points if not isinstance(x, str)]
    texts = [RunTag(_name(name), x) for name, x, _ in points if isinstance(x, str)]
    for some in _chunks(params, PARAMS_LIMIT):
        client.log_batch(run, params=some)
    for some in _chunks(texts, PARAMS_LIMIT):
        client.log_batch(run, tags=some)
    for some in _chunks(numbers, METRICS_LIMIT):
        client.log_batch(run, metrics=some)
    client.set_terminated(run, "FINISHED", ended)
    kept = client.get_run(run)  # a server may answer every request with an empty 200
    if kept.info.status != "FINISHED" or not {number.key for number in numbers} <= kept.data.metrics.keys():
        raise InputError(f"the server did not keep what it was sent: {NO_MLFLOW}")


def _create_run(client: MlflowClient, experiment: str, record: Mapping[str, Any]) -> Run:
    tags = {
        "annulus.record": record["id"],
        "dvc.stage": record["stage"],
        "dvc.exp_name": record["experiment"],
        "mlflow.source.git.commit": record["commit"],
    }
    return client.create_run(
        experiment,
        start_time=round(record["started"] * 1000),
        tags={name: value for name, value in tags.items() if value},
        run_name="/".join(filter(None, [record["experiment"], record["stage"]])),
    )


def _name(name: str, part: int = 1) -> str:
    """A name that MLflow takes; a value too long for one parameter goes on in `name/2`."""
    return re.sub(r"[^\w.: -]", "_", name)[:240] + (f"/{part}" if part > 1 else "")


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


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
