"""What a record of `tracking` becomes in MLflow: its variant's run, with a run of each stage and each seed below.

The variant's run has the headline numbers, so that MLflow's table of runs compares variants; what is below is folded.
Sending is interrupted, repeated and out of order: each run is found again by a tag, and a record is never two runs.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Metric, Param, Run, RunTag

from annulus.errors import InputError
from annulus.files.results import Number
from annulus.pipeline.variant import shortened

# MLflow's limits: characters of a value, entries of one request.
VALUE_LIMIT, PARAMS_LIMIT, METRICS_LIMIT = 6000, 100, 1000

NO_MLFLOW = "it may be no MLflow server; check the address in MLFLOW_TRACKING_URI"


def keep(client: MlflowClient, experiment: str, record: Mapping[str, Any]) -> None:
    """Make a record runs, or complete those of an earlier try; the run that holds the stage's numbers is finished last.

    The stage with the headline numbers has no run besides the variant's: MLflow's table, sorted by a number, would show
    both.

    Raises:
        InputError: when the server does not keep what it is sent.
    """
    variant, stage = record["variant"], shortened(record["stage"])
    runs = _Runs(client, experiment, record)
    parent = runs.get("annulus.variant", variant["id"], variant["name"])
    runs.log_params(parent, variant["params"])
    run = parent
    if stage != variant["headline"]:
        run = runs.get("annulus.record", record["id"], stage, parent)
        runs.log_params(run, record["params"])
    runs.log(run, record["metrics"], _means(record["history"]))
    for seed, numbers in record["seeds"].items():
        rows = [row for row in record["history"] if str(row.get("seed")) == seed]
        one = runs.get("annulus.seed", f"{variant['id']}/{seed}", f"seed {seed}", parent)
        runs.log_params(one, {"seed": seed})
        runs.log(one, _prefixed(stage, numbers), [_prefixed(stage, row) for row in rows])
        runs.finish(one)
    runs.finish(parent)
    runs.finish(run)
    kept = client.get_run(run.info.run_id)  # a server may answer every request with an empty 200
    expected = {_name(name) for name, x in record["metrics"].items() if not isinstance(x, str)}
    if kept.info.status != "FINISHED" or not expected <= kept.data.metrics.keys():
        raise InputError(f"the server did not keep what it was sent: {NO_MLFLOW}")


class _Runs:
    """The runs in MLflow that one record makes or completes."""

    def __init__(self, client: MlflowClient, experiment: str, record: Mapping[str, Any]) -> None:
        self.client, self.experiment = client, experiment
        self.started, self.ended = (round(record[name] * 1000) for name in ("started", "ended"))
        tags = {"dvc.exp_name": record["experiment"], "mlflow.source.git.commit": record["commit"]}
        self.tags = {name: value for name, value in tags.items() if value}

    def get(self, tag: str, value: str, name: str, parent: Run | None = None) -> Run:
        """The run with this tag; a new one with this name, when there is none."""
        found = self.client.search_runs([self.experiment], f"tags.`{tag}` = '{value}'", order_by=["start_time ASC"])
        if found:
            return found[0]
        below = {"mlflow.parentRunId": parent.info.run_id} if parent else {}
        return self.client.create_run(self.experiment, self.started, {tag: value, **self.tags, **below}, run_name=name)

    def log_params(self, run: Run, params: Mapping[str, str]) -> None:
        """Add parameters, those that are there again."""
        given = [
            Param(_name(name, part), value[start : start + VALUE_LIMIT])
            for name, value in params.items()
            for part, start in enumerate(range(0, max(len(value), 1), VALUE_LIMIT), start=1)
        ]
        for some in _chunks(given, PARAMS_LIMIT):
            self.client.log_batch(run.info.run_id, params=some)

    def log(self, run: Run, metrics: Mapping[str, Number], history: Sequence[Mapping[str, Number]]) -> None:
        """Add numbers and curves. Of a number that two stages gave, MLflow shows the later stage's."""
        last = history[-1]["epoch"] if history else 0
        points = [(name, x, row["epoch"]) for row in history for name, x in row.items() if name != "epoch"]
        points += [(name, x, last) for name, x in metrics.items()]
        numbers = [Metric(_name(name), x, self.ended, epoch) for name, x, epoch in points if not isinstance(x, str)]
        texts = [RunTag(_name(name), x) for name, x in metrics.items() if isinstance(x, str)]
        for some in _chunks(texts, PARAMS_LIMIT):
            self.client.log_batch(run.info.run_id, tags=some)
        for some in _chunks(numbers, METRICS_LIMIT):
            self.client.log_batch(run.info.run_id, metrics=some)

    def finish(self, run: Run) -> None:
        """End a run with its last stage, whichever was sent last."""
        self.client.set_terminated(run.info.run_id, "FINISHED", max(self.ended, run.info.end_time or 0))


def _means(history: Sequence[Mapping[str, Number]]) -> list[dict[str, Number]]:
    """The mean over seeds, epoch by epoch."""
    epochs: dict[Number, list[Mapping[str, Number]]] = {}
    for row in history:
        epochs.setdefault(row["epoch"], []).append(row)
    found = []
    for epoch, rows in epochs.items():
        names = [name for name, x in rows[0].items() if name not in ("seed", "epoch") and not isinstance(x, str)]
        found.append({"epoch": epoch} | {name: fmean(row[name] for row in rows if name in row) for name in names})
    return found


def _name(name: str, part: int = 1) -> str:
    """A name that MLflow takes; a value too long for one parameter goes on in `name/2`."""
    return re.sub(r"[^\w.: -]", "_", name)[:240] + (f"/{part}" if part > 1 else "")


def _chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _prefixed(stage: str, numbers: Mapping[str, Number]) -> dict[str, Number]:
    """A seed's numbers by stage: `knn.top1_percent`."""
    return {name if name == "epoch" else f"{stage}.{name}": x for name, x in numbers.items() if name != "seed"}
