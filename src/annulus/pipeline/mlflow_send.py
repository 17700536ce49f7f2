"""Send the results here that MLflow lacks: `python -m annulus.pipeline.mlflow_send`.

Each variant of the main line is a run with the headline numbers, and below it, folded, a run for each seed. Each study
has an experiment of its own, `annulus/STUDY`, with a run for each row of its tables. A run is identified by the digest
of its content, so sending twice, or after an interrupt, makes no second one; runs deleted in MLflow stay deleted.
Nothing is read back: the record is metrics/, in git.
"""

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
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C may come at any time: the next one completes a part

from annulus.errors import InputError
from annulus.files.regular import check_regular
from annulus.files.results import Number
from annulus.pipeline.redaction import redacted, secrets_of
from annulus.pipeline.study_rows import study_rows
from annulus.pipeline.variants import Curve, Variant, variants

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}
os.environ["MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT"] = "true"  # two lines a run, with the address's password
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # MLflow's own take four minutes and more to give up
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "8")

from mlflow import MlflowClient  # reads the environment
from mlflow.entities import Metric, Param, Run, ViewType

VALUE_LIMIT = 5000  # characters of values that are only displayed
SERVER_SECONDS = 10  # for a first answer, whatever the server does
RUN_SECONDS = 60  # for a run with those below it, or for the list of an experiment's runs
MANY = 50  # runs, which take some seconds: a line says so
PAGE_RUNS = 1000  # of a search

LOCAL = "sqlite:///mlflow.db"  # relative: MLflow would take a ? or % of the folder's name for its own

# What the page opens with: MLflow keeps a view that is shared under a key, in a tag of the experiment. Sorted by a
# number the table would show the seeds beside their variants.
COLUMNS = ("knn_top1_percent", "knn_top1_interval_percent", "linear_top1_percent", "linear_top1_interval_percent")
SHOWN = [f"metrics.`{name}`" for name in COLUMNS] + [f"params.`{name}`" for name in ("method", "sampler", "scale")]
VIEW = {"orderByKey": "attributes.start_time", "orderByAsc": False, "selectedColumns": SHOWN, "columnOrder": SHOWN}
VIEW["columnWidths"] = dict.fromkeys(SHOWN[: len(COLUMNS)], 170)  # pixels
KIND = {"mlflow.experimentKind": "custom_model_development"}
TAGS = KIND | {"mlflow.sharedViewState.annulus": json.dumps(VIEW)}
PAGE = "#/experiments/{}/runs?workflowType=machine_learning&viewStateShareKey=annulus"


def destination() -> str:
    """Address of the MLflow store: MLFLOW_TRACKING_URI, or a SQLite file in this checkout, the working directory."""
    return os.environ.get("MLFLOW_TRACKING_URI") or LOCAL


def redacted_text(text: str) -> str:
    """Text without the secrets of the destination's address and of the environment."""
    return redacted(text, destination(), secrets_of(os.environ))


def send() -> str:
    """Send the missing results and print their number. Returns the path of the page that shows them.

    Raises:
        InputError: when MLflow does not take it.
    """
    main_variants, faults = variants(Path())
    studies, more = study_rows(Path())
    main = os.environ.get("MLFLOW_EXPERIMENT_NAME", "annulus")
    results = {main: main_variants} | {f"{main}/{study}": rows for study, rows in studies.items()}
    try:
        with _locked():
            with _within(SERVER_SECONDS):
                client = _client()
                page = _experiment(client, main, TAGS)
            sent = 0
            for name, rows in results.items():
                with suppress(_Deleted):  # a study's experiment stays deleted, as runs do
                    sent += _keep_all(client, name, rows)
    except Exception as error:  # of many kinds, by destination
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        reason = redacted_text(kind + " ".join(str(error).split()))[:400]
        raise InputError(
            f"MLflow at {redacted_text(destination())} did not take the numbers ({reason}). They are in metrics/; "
            "`make mlflow-send` sends them once that is mended"
        ) from error
    for fault in faults + more:
        print(f"not in MLflow: {fault}", file=sys.stderr)
    print(f"MLflow at {redacted_text(destination())}: {sent} new, {sum(map(len, results.values()))} in all")
    return PAGE.format(page)


class _Deleted(InputError):
    """The experiment was deleted in MLflow."""


class _Late(BaseException):
    """Not an Exception: MLflow tries again after any."""


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    """Limit the time of a server: requests have no limit of their own when it sends a byte now and then.

    Raises:
        InputError: when the time is over.
    """

    def late(*_: object) -> NoReturn:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, 0 if destination().startswith("sqlite:") else seconds, 1)
    try:
        yield
    except _Late:
        raise InputError(f"no answer in {seconds} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextmanager
def _locked() -> Iterator[None]:
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
            # Made aside: a killed sender would leave a store that nobody can open. Beside it: a store that several
            # share may be on another disk.
            aside = database.with_name(f"{database.name}.{os.getpid()}")
            MlflowClient(f"sqlite:///{aside}").search_experiments(max_results=1)
            if database.exists():  # another checkout has made it meanwhile
                aside.unlink()
            else:
                aside.replace(database)
        try:  # MLflow tries for minutes to open a file that is not a database
            check_regular(database)
            with closing(sqlite3.connect(database, timeout=30)) as connection:
                connection.execute("PRAGMA schema_version")
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"SQLite cannot read {database}: {error}; move it away, or name another store in MLFLOW_TRACKING_URI"
            ) from error
    return MlflowClient(uri)


def _experiment(client: MlflowClient, name: str, tags: Mapping[str, str]) -> str:
    """Id of the experiment, which is created if it is missing.

    Raises:
        _Deleted: when it was deleted, with the ways out.
    """
    known = client.get_experiment_by_name(name)
    if known is not None and known.lifecycle_stage == "deleted":
        raise _Deleted(
            f"its experiment {name!r} was deleted: `mlflow experiments restore -x {known.experiment_id}` brings it "
            "back, MLFLOW_EXPERIMENT_NAME names another one"
        )
    experiment_id = known.experiment_id if known else client.create_experiment(name)
    if not experiment_id:  # MLflow's client takes 200 with an empty body for an experiment without fields
        raise InputError("the server's answer names no experiment; check the address in MLFLOW_TRACKING_URI")
    for tag, value in tags.items():
        if known is None or known.tags.get(tag) != value:
            client.set_experiment_tag(experiment_id, tag, value)
    return experiment_id


def _keep_all(client: MlflowClient, name: str, rows: Sequence[Variant]) -> int:
    """Make an experiment's variants runs. Returns the number of new ones."""
    with _within(RUN_SECONDS):
        experiment, known, token = _experiment(client, name, KIND), {}, None
        while token != "":  # of several checkouts' runs the first; one search for each would take seconds
            page = client.search_runs([experiment], "", ViewType.ALL, PAGE_RUNS, ["start_time ASC"], token)
            known = {run.data.tags.get("annulus.digest"): run for run in reversed(page)} | known
            token = page.token or ""
    if (missing := sum(row.digest not in known for row in rows)) >= MANY:
        print(f"MLflow: {missing} rows of results to record in {name!r}", file=sys.stderr)
    sent = 0
    for row in rows:
        with _within(RUN_SECONDS):
            sent += _keep(client, experiment, known, row)
    return sent


def _keep(client: MlflowClient, experiment: str, known: Mapping[str, Run], variant: Variant) -> bool:
    """Make a variant runs, or complete those of an earlier try, its own last. Returns True if any was missing."""
    tags = {"dvc.exp_name": variant.experiment, "mlflow.source.git.commit": variant.commit}

    def run_of(name: str, digest: str, numbers: Mapping[str, Number], **more: str) -> Run:
        given = tags | {_name(key): text[:VALUE_LIMIT] for key, text in numbers.items() if isinstance(text, str)}
        given = {tag: text for tag, text in given.items() if text} | more | {"annulus.digest": digest}
        return known.get(digest) or client.create_run(experiment, round(variant.made * 1000), given, name)

    run = run_of(variant.name, variant.digest, variant.numbers)
    if run.info.status == "FINISHED" or run.info.lifecycle_stage == "deleted":
        return False
    parent = {"mlflow.parentRunId": run.info.run_id}
    for seed, numbers in variant.seeds.items():
        one = run_of(f"seed {seed}", f"{variant.digest}/{seed}", numbers, **parent)
        if one.info.status != "FINISHED":
            _log(client, one, {"seed": seed}, numbers, variant.curves_of.get(seed, {}))
    _log(client, run, variant.params, variant.numbers, variant.curves)
    return True


def _log(
    client: MlflowClient,
    run: Run,
    params: Mapping[str, str],
    numbers: Mapping[str, Number],
    curves: Mapping[str, Curve],
) -> None:
    """Add a run's content beside its tags, and end it. Existing content is the same: times are the run's."""
    made, last = run.info.start_time, max((epoch for curve in curves.values() for epoch, _ in curve), default=0)
    metrics = [Metric(_name(name), x, made, epoch) for name, curve in curves.items() for epoch, x in curve]
    # Later than a curve's last point, so that the table shows the number.
    metrics += [Metric(_name(name), x, made + 1, last) for name, x in numbers.items() if not isinstance(x, str)]
    given = [Param(_name(name), value[:VALUE_LIMIT]) for name, value in params.items()]
    for at in range(max(len(given) // 100, len(metrics) // 900) + 1):  # MLflow's limits of one request
        part = metrics[900 * at : 900 * at + 900], given[100 * at : 100 * at + 100]
        client.log_batch(run.info.run_id, *part)
    client.set_terminated(run.info.run_id, "FINISHED", made + 1)


def _name(name: str) -> str:
    """A name that MLflow takes."""
    return re.sub(r"[^\w.: /-]", "_", name)[:240]


def main() -> None:
    """Send everything and print the result; exit status 1 when MLflow did not take it."""
    logging.disable()  # lines of MLflow and urllib3 repeat the address; the last sentence says what is wrong
    try:
        send()
    except InputError as error:
        raise SystemExit(f"WARNING: {error}") from None


if __name__ == "__main__":
    main()
