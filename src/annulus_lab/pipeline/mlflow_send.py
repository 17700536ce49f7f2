"""Sends MLflow the missing results: `python -m annulus_lab.pipeline.mlflow_send`; `--all` includes the studies.

A variant of the main line is a run with the headline numbers. Below it, folded, is a run for each seed. A study has an
experiment of its own, `annulus/STUDY`, with a run for each row of its tables. The digest of its content identifies a
run, so a repeated or interrupted sending makes no second one. A run that was deleted in MLflow stays deleted. This
module reads nothing back: the record is metrics/, in git.
"""

import argparse
import fcntl
import json
import logging
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NoReturn

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C may come at any time: the next sending completes a part

from annulus.errors import InputError
from annulus.files.regular import check_regular
from annulus.files.results import Number
from annulus_lab.pipeline.mlflow_artifacts import send_artifacts
from annulus_lab.pipeline.redaction import environment_secrets, redacted
from annulus_lab.pipeline.study_rows import study_rows
from annulus_lab.pipeline.variants import Curve, Variant, variants

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}
os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # two lines a run, with the address's password
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # MLflow's default gives up after four minutes
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "8")

import mlflow  # reads the environment
from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, Metric, Param, Run, ViewType

VALUE_LIMIT = 5000  # characters of values that are only displayed
SERVER_SECONDS = 10  # for a first answer of the server
RUN_SECONDS = 60  # for a run and its seeds' runs, or for the list of an experiment's runs
MANY = 10  # runs: from here on a line reports them, since each takes most of a second
PAGE_RUNS = 1000  # of a search

LOCAL = "sqlite:///mlflow.db"  # relative: MLflow would take a ? or % of the folder's name for its own

# The page's first view: MLflow keeps a shared view under a key, in a tag of the experiment. The table is not sorted by
# a number, since the seeds would then stand beside their variants.
COLUMNS = ("knn_top1_percent", "knn_top1_interval_percent", "linear_top1_percent", "linear_top1_interval_percent")
SHOWN = [f"metrics.`{name}`" for name in COLUMNS] + [f"params.`{name}`" for name in ("method", "sampler", "scale")]
VIEW = {"orderByKey": "attributes.start_time", "orderByAsc": False, "selectedColumns": SHOWN, "columnOrder": SHOWN}
VIEW["columnWidths"] = dict.fromkeys(SHOWN[: len(COLUMNS)], 170)  # pixels
KIND = {"mlflow.experimentKind": "custom_model_development"}
TAGS = KIND | {"mlflow.sharedViewState.annulus": json.dumps(VIEW)}
PAGE = "#/experiments/{}/runs?workflowType=machine_learning&viewStateShareKey=annulus"


def destination() -> str:
    """Address of the MLflow store: MLFLOW_TRACKING_URI, or a SQLite file in the working directory."""
    return os.environ.get("MLFLOW_TRACKING_URI") or LOCAL


def redacted_text(text: str) -> str:
    """Text without the secrets of the destination's address and of the environment."""
    return redacted(text, destination(), environment_secrets(os.environ))


def send(studies: bool = False, artifacts: bool = False) -> str:
    """Sends the missing results of the main line, with `studies` also of the studies; prints their number.

    With `artifacts` the workspace's run gets the picture of its annulus, and the run of each seed its encoder as a
    folder of the Hub.

    Returns the path of the page that shows them.

    Raises:
        InputError: when MLflow does not accept them.
    """
    main_variants, faults = variants(Path())
    study_variants, more = study_rows(Path()) if studies else ({}, [])
    main = os.environ.get("MLFLOW_EXPERIMENT_NAME", "annulus")
    results = {main: main_variants} | {f"{main}/{study}": rows for study, rows in study_variants.items()}
    try:
        with _lock():
            with _time_limit(SERVER_SECONDS):
                client = _client()
                page = _experiment(client, main, TAGS)
            new_runs = 0
            for name, rows in results.items():
                with suppress(_DeletedError):  # a study's experiment stays deleted, as runs do
                    new_runs += _record_all(client, name, rows)
            if artifacts:
                send_artifacts(client, page)
    except Exception as error:  # of many kinds, by destination
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        reason = redacted_text(kind + " ".join(str(error).split()))[:400]
        raise InputError(
            f"MLflow at {redacted_text(destination())} did not take the numbers ({reason}). They are in metrics/; "
            f"`make mlflow-send{' ALL=yes' if studies else ''}{' ARTIFACTS=yes' if artifacts else ''}` sends them once "
            "that is mended"
        ) from error
    for fault in faults + more:
        print(f"not in MLflow: {fault}", file=sys.stderr)
    print(f"MLflow at {redacted_text(destination())}: {new_runs} new, {sum(map(len, results.values()))} in all")
    return PAGE.format(page)


class _DeletedError(InputError):
    """Error: the experiment was deleted in MLflow."""


class _Late(BaseException):
    """Time limit exceeded. It is a BaseException, since MLflow retries after every Exception."""


@contextmanager
def _time_limit(seconds: int) -> Iterator[None]:
    """Limits the time of a server; a request's own limit starts again with every byte.

    Raises:
        InputError: when the time is over.
    """

    def raise_late(*_: object) -> NoReturn:
        raise _Late

    handler = signal.signal(signal.SIGALRM, raise_late)
    signal.setitimer(signal.ITIMER_REAL, 0 if destination().startswith("sqlite:") else seconds, 1)
    try:
        yield
    except _Late:
        raise InputError(f"no answer in {seconds} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)


@contextmanager
def _lock() -> Iterator[None]:
    Path(".annulus").mkdir(exist_ok=True)
    with Path(".annulus/mlflow.lock").open("a", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _client() -> MlflowClient:
    uri = destination()
    if uri.startswith("sqlite:///"):
        database = Path(uri.removeprefix("sqlite:///").partition("?")[0])
        if not database.exists():
            if not database.parent.is_dir():  # MLflow tries for minutes
                raise InputError(f"there is no folder {database.parent} for {database.name}; make it")
            # A temporary name: a killed sender would leave a store that nobody can open. In the same folder: a store
            # that several checkouts share may be on another disk.
            temporary = database.with_name(f"{database.name}.{os.getpid()}")
            MlflowClient(f"sqlite:///{temporary}").search_experiments(max_results=1)
            if database.exists():  # another checkout has made it meanwhile
                temporary.unlink()
            else:
                temporary.replace(database)
        try:  # MLflow tries for minutes to open a file that is not a database
            check_regular(database)
            with closing(sqlite3.connect(database, timeout=30)) as connection:
                _check_schema(connection, database)
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"SQLite cannot read {database}: {error}; move it away, or name another store in MLFLOW_TRACKING_URI"
            ) from error
    return MlflowClient(uri)


def _check_schema(connection: sqlite3.Connection, database: Path) -> None:
    """Checks whose tables a database holds; MLflow would add its own to another program's.

    Raises:
        InputError: for tables of another program, or of another version of MLflow, with the way out.
    """
    other = "name another store in MLFLOW_TRACKING_URI, such as sqlite:///annulus.db"
    tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if not tables:
        return
    if not {"alembic_version", "experiments"} <= tables:
        raise InputError(
            f"{database} is a database of another program (tables {', '.join(sorted(tables)[:3])}); {other}"
        )
    (version,) = next(connection.execute("SELECT version_num FROM alembic_version"), ("",))
    folder = Path(mlflow.__file__).parent / "store/db_migrations/versions"
    if not list(folder.glob(f"{version}_*.py")):
        raise InputError(
            f"{database} was made by a newer MLflow than {mlflow.__version__} (schema {version}); install that MLflow, "
            f"or {other}"
        )


def _experiment(client: MlflowClient, name: str, tags: Mapping[str, str]) -> str:
    """Id of the experiment; creates a missing one.

    Raises:
        _DeletedError: when the experiment was deleted, with the ways out.
    """
    known = client.get_experiment_by_name(name)
    if known is not None and known.lifecycle_stage == "deleted":
        raise _DeletedError(
            f"its experiment {name!r} was deleted: `mlflow experiments restore -x {known.experiment_id}` brings it "
            "back, MLFLOW_EXPERIMENT_NAME names another one"
        )
    experiment_id = known.experiment_id if known else client.create_experiment(name)
    if not experiment_id:  # MLflow's client reads status 200 with an empty body as an experiment without fields
        raise InputError("the server's answer names no experiment; check the address in MLFLOW_TRACKING_URI")
    for tag, value in tags.items():
        if known is None or known.tags.get(tag) != value:
            client.set_experiment_tag(experiment_id, tag, value)
    return experiment_id


def _record_all(client: MlflowClient, name: str, rows: Sequence[Variant]) -> int:
    """Records an experiment's variants as runs; returns the number of new runs."""
    with _time_limit(RUN_SECONDS):
        experiment, known, token = _experiment(client, name, KIND), {}, None
        while token != "":  # the first run of each digest wins; a search for each digest would take seconds
            page = client.search_runs([experiment], "", ViewType.ALL, PAGE_RUNS, ["start_time ASC"], token)
            known = {run.data.tags.get("annulus.digest"): run for run in reversed(page)} | known
            token = page.token or ""
    if (missing := sum(row.digest not in known for row in rows)) >= MANY:
        print(f"MLflow: {missing} rows of results to record in {name!r}", file=sys.stderr)
    new_runs = 0
    for row in rows:
        with _time_limit(RUN_SECONDS):
            new_runs += _record(client, experiment, known, row)
    return new_runs


def _record(client: MlflowClient, experiment: str, known: Mapping[str, Run], variant: Variant) -> bool:
    """Records a variant's runs, or completes an earlier try; returns True if one was missing.

    The variant's own run comes after the seeds' runs.
    """
    tags = {
        "dvc.exp_name": variant.experiment,
        "mlflow.source.git.commit": variant.commit,
        "mlflow.source.name": _source(variant),
        "mlflow.source.type": "PROJECT",
    }

    def get_or_create(name: str, digest: str, numbers: Mapping[str, Number], **more: str) -> Run:
        run_tags = tags | {_name(key): text[:VALUE_LIMIT] for key, text in numbers.items() if isinstance(text, str)}
        run_tags = {tag: text for tag, text in run_tags.items() if text} | more | {"annulus.digest": digest}
        start_time = round((variant.modified - variant.seconds) * 1000)
        return known.get(digest) or client.create_run(experiment, start_time, run_tags, name)

    run = get_or_create(variant.name, variant.digest, variant.numbers)
    if run.info.status == "FINISHED" or run.info.lifecycle_stage == "deleted":
        return False
    parent = {"mlflow.parentRunId": run.info.run_id}
    for seed, numbers in variant.seeds.items():
        one = get_or_create(f"seed {seed}", f"{variant.digest}/{seed}", numbers, **parent)
        if one.info.status != "FINISHED":
            _log(client, one, {"seed": seed}, numbers, variant.seed_curves.get(seed, {}))
    dataset = _dataset(variant)
    if dataset is not None and not (run.inputs and run.inputs.dataset_inputs):
        client.log_inputs(run.info.run_id, [DatasetInput(dataset)])
    _log(client, run, variant.params, variant.numbers, variant.curves, round(variant.seconds * 1000))
    return True


def _source(variant: Variant) -> str:
    """Path of the dvc.yaml whose stages made the numbers."""
    folder = Path(variant.params.get("file", "")).parts
    return f"stages/{folder[1]}/dvc.yaml" if folder[:1] == ("stages",) else "dvc.yaml"


def _dataset(variant: Variant) -> Dataset | None:
    """Name, digest and number of images of the main line's image set; None for a row of a study."""
    name, digest = variant.params.get("dataset"), variant.numbers.get("prepare/digest")
    if not name or not digest:
        return None
    counts = {
        key.removeprefix("prepare/"): number
        for key, number in sorted(variant.numbers.items())
        if key.startswith("prepare/") and (key.endswith("_images") or key in ("prepare/classes", "prepare/image_size"))
    }
    source = json.dumps({"stage": "prepare", "dataset": name})
    return Dataset(name, str(digest), "local", source, profile=json.dumps(counts))


def _log(
    client: MlflowClient,
    run: Run,
    params: Mapping[str, str],
    numbers: Mapping[str, Number],
    curves: Mapping[str, Curve],
    milliseconds: int = 0,
) -> None:
    """Adds content to a run and ends it. A second call writes the same content, since the times are the run's.

    `milliseconds`: the duration that MLflow shows.
    """
    start_time, last = run.info.start_time, max((epoch for curve in curves.values() for epoch, _ in curve), default=0)
    metrics = [Metric(_name(name), x, start_time, epoch) for name, curve in curves.items() for epoch, x in curve]
    # One millisecond after a curve's last point, so that the table shows the number.
    metrics += [Metric(_name(name), x, start_time + 1, last) for name, x in numbers.items() if not isinstance(x, str)]
    run_params = [Param(_name(name), value[:VALUE_LIMIT]) for name, value in params.items()]
    for at in range(max(len(run_params) // 100, len(metrics) // 900) + 1):  # MLflow's limits of one request
        part = metrics[900 * at : 900 * at + 900], run_params[100 * at : 100 * at + 100]
        client.log_batch(run.info.run_id, *part)
    client.set_terminated(run.info.run_id, "FINISHED", start_time + max(milliseconds, 1))


def _name(name: str) -> str:
    """Name in the characters and the length that MLflow accepts."""
    return re.sub(r"[^\w.: /-]", "_", name)[:240]


def main(argv: Sequence[str] | None = None) -> None:
    """Sends the missing results and prints their number; exits with status 1 if MLflow does not accept them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="the studies' rows too, a minute or two the first time")
    parser.add_argument("--artifacts", action="store_true", help="the workspace's picture and encoders too")
    arguments = parser.parse_args(argv)
    logging.disable()  # lines of MLflow and urllib3 repeat the address; the last sentence names the fault
    try:
        send(arguments.all, arguments.artifacts)
    except InputError as error:
        raise SystemExit(f"WARNING: {error}") from None


if __name__ == "__main__":
    main()
