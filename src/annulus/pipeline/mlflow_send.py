"""Send to MLflow what it has not got of the variants here: `python -m annulus.pipeline.mlflow_send`.

Each variant is a run with the headline numbers, and below it, folded, a run for each seed. A run is found again by the
digest of its content, so sending twice, or after an interrupt, makes no second one; a run that was deleted in MLflow
stays deleted. Nothing is read back: the record is metrics/, in git.
"""

import fcntl
import json
import logging
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import NoReturn

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C may come at any time: what is sent in part is completed later

from annulus.errors import InputError
from annulus.files.regular import check_regular
from annulus.files.results import Number
from annulus.pipeline.redaction import redacted, secrets_of
from annulus.pipeline.variants import Curve, Variant, variants

os.environ |= {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true", "MLFLOW_LOGGING_LEVEL": "WARNING"}
os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")  # MLflow's own take four minutes and more to give up
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "8")

from mlflow import MlflowClient  # reads the environment
from mlflow.entities import Metric, Param, Run, RunTag, ViewType

VALUE_LIMIT = 5000  # characters, of what is only to be looked at
SERVER_SECONDS = 10  # for a first answer, whatever the server does
RUN_SECONDS = 60  # for a run with those below it

LOCAL = "sqlite:///mlflow.db"  # relative: MLflow would take a ? or % of the folder's name for its own

# What the page opens with: MLflow keeps a view that is shared under a key, in a tag of the experiment. Sorted by a
# number the table would show the seeds beside their variants.
COLUMNS = ("knn_top1_percent", "knn_top1_interval_percent", "linear_top1_percent", "linear_top1_interval_percent")
SHOWN = [f"metrics.`{name}`" for name in COLUMNS] + [f"params.`{name}`" for name in ("method", "sampler", "scale")]
VIEW = {"orderByKey": "attributes.start_time", "orderByAsc": False, "selectedColumns": SHOWN, "columnOrder": SHOWN}
VIEW["columnWidths"] = dict.fromkeys(SHOWN[: len(COLUMNS)], 170)  # pixels
TAGS = {"mlflow.sharedViewState.annulus": json.dumps(VIEW), "mlflow.experimentKind": "custom_model_development"}
PAGE = "#/experiments/{}/runs?workflowType=machine_learning&viewStateShareKey=annulus"


def destination() -> str:
    """Where runs go: MLFLOW_TRACKING_URI, or a SQLite file in this checkout, which must be the working directory."""
    return os.environ.get("MLFLOW_TRACKING_URI") or LOCAL


def shown(text: str) -> str:
    """Text without the secrets of the destination's address and of the environment."""
    return redacted(text, destination(), secrets_of(os.environ))


def send() -> str:
    """Send what is missing, and say it. Returns the path of the page that shows it.

    Raises:
        InputError: when MLflow does not take it.
    """
    found, faults = variants(Path())
    try:
        with _locked(), _within(SERVER_SECONDS):
            client = _client()
            experiment = _experiment(client)
        sent = 0
        for variant in found:
            with _locked(), _within(RUN_SECONDS):
                sent += _keep(client, experiment, variant)
    except Exception as error:  # of many kinds, by destination
        kind = "" if isinstance(error, InputError) else f"{type(error).__name__}: "
        reason = shown(kind + " ".join(str(error).split()))[:400]
        raise InputError(
            f"MLflow at {shown(destination())} did not take the numbers ({reason}). They are in metrics/; "
            "`make mlflow-send` sends them once that is mended"
        ) from error
    for fault in faults:
        print(f"not in MLflow: {fault}", file=sys.stderr)
    print(f"MLflow at {shown(destination())}: {sent} new, {len(found)} in all")
    return PAGE.format(experiment)


class _Late(BaseException):
    """Not an Exception: MLflow tries again after any."""


@contextmanager
def _within(seconds: int) -> Iterator[None]:
    """End what a server draws out: requests have no limit of their own when it sends a byte now and then.

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
            # Made aside, where git looks not: a killed sender would leave a store that nobody can open.
            aside = Path(".annulus/mlflow.new")
            aside.unlink(missing_ok=True)
            MlflowClient(f"sqlite:///{aside}").search_experiments(max_results=1)
            aside.replace(database)
        try:  # MLflow tries for minutes to open what is no database
            check_regular(database)
            with closing(sqlite3.connect(database, timeout=30)) as connection:
                connection.execute("PRAGMA schema_version")
        except (OSError, sqlite3.Error) as error:
            raise InputError(
                f"SQLite cannot read {database}: {error}; move it away, or name another store in MLFLOW_TRACKING_URI"
            ) from error
    return MlflowClient(uri)


def _experiment(client: MlflowClient) -> str:
    """The experiment's id. Its page shows the columns above, and what belongs to trainings."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "annulus")
    known = client.get_experiment_by_name(name)
    if known is not None and known.lifecycle_stage == "deleted":
        raise InputError(
            f"its experiment {name!r} was deleted: `mlflow experiments restore -x {known.experiment_id}` brings it "
            "back, MLFLOW_EXPERIMENT_NAME names another one"
        )
    found = known.experiment_id if known else client.create_experiment(name)
    if not found:  # MLflow's client takes 200 with an empty body for an experiment without fields
        raise InputError("the server's answer names no experiment; check the address in MLFLOW_TRACKING_URI")
    for tag, value in TAGS.items():
        if known is None or known.tags.get(tag) != value:
            client.set_experiment_tag(found, tag, value)
    return found


def _keep(client: MlflowClient, experiment: str, variant: Variant) -> bool:
    """Make a variant runs, or complete those of an earlier try, its own last. Returns whether that was to do."""
    tags = {"annulus.digest": variant.digest, "dvc.exp_name": variant.experiment}
    tags["mlflow.source.git.commit"] = variant.commit
    run = _run(client, experiment, tags, variant.name, variant.made)
    if run.info.status == "FINISHED" or run.info.lifecycle_stage == "deleted":
        return False
    for seed, numbers in variant.seeds.items():
        below = tags | {"annulus.digest": f"{variant.digest}/{seed}", "mlflow.parentRunId": run.info.run_id}
        one = _run(client, experiment, below, f"seed {seed}", variant.made)
        _log(client, one, {"seed": seed}, numbers, variant.curves_of.get(seed, {}))
    _log(client, run, variant.params, variant.numbers, variant.curves)
    return True


def _run(client: MlflowClient, experiment: str, tags: Mapping[str, str | None], name: str, made: float) -> Run:
    """The run of a digest; a new one with this name, when there is none."""
    digest = f"tags.`annulus.digest` = '{tags['annulus.digest']}'"
    found = client.search_runs([experiment], digest, ViewType.ALL, order_by=["start_time ASC"])
    given = {tag: value for tag, value in tags.items() if value}
    return found[0] if found else client.create_run(experiment, round(made * 1000), given, run_name=name)


def _log(
    client: MlflowClient,
    run: Run,
    params: Mapping[str, str],
    numbers: Mapping[str, Number],
    curves: Mapping[str, Curve],
) -> None:
    """Add what a run holds, and end it. What is there already is the same: times are the run's."""
    made, last = run.info.start_time, max((epoch for curve in curves.values() for epoch, _ in curve), default=0)
    metrics = [Metric(_name(name), x, made, epoch) for name, curve in curves.items() for epoch, x in curve]
    # Later than a curve's last point, so that the table shows the number.
    metrics += [Metric(_name(name), x, made + 1, last) for name, x in numbers.items() if not isinstance(x, str)]
    texts = [RunTag(_name(name), x[:VALUE_LIMIT]) for name, x in numbers.items() if isinstance(x, str)]
    given = [Param(_name(name), value[:VALUE_LIMIT]) for name, value in params.items()]
    for kind, entries, most in (("params", given, 100), ("tags", texts, 100), ("metrics", metrics, 1000)):
        for start in range(0, len(entries), most):  # MLflow's limits of one request
            client.log_batch(run.info.run_id, **{kind: entries[start : start + most]})
    client.set_terminated(run.info.run_id, "FINISHED", made + 1)


def _name(name: str) -> str:
    """A name that MLflow takes."""
    return re.sub(r"[^\w.: /-]", "_", name)[:240]


def main() -> None:
    """Send everything and say what was done; exit status 1 when MLflow did not take it."""
    logging.disable()  # lines of MLflow and urllib3 repeat the address; the last sentence says what is wrong
    try:
        send()
    except InputError as error:
        raise SystemExit(f"WARNING: {error}") from None


if __name__ == "__main__":
    main()
