"""MLflow gets every number once; whatever it does, a stage ends well and soon."""

import json
import os
import re
import select
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import warm
import yaml
from mlflow import MlflowClient
from report_root import first_commit

from annulus.config.negatives import RingParams
from annulus.errors import InputError
from annulus.pipeline import mlflow_sender, tracking

SOURCE = Path(tracking.__file__).parents[2]
REFUSED = "http://127.0.0.1:9"
PYTHON = sys.executable


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A stage that DVC runs: a main checkout with parameters only, and no server."""
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_EXPERIMENT_NAME", "DVC_EXP_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("DVC_STAGE", "knn")
    monkeypatch.setattr(tracking, "_waiting", None)
    monkeypatch.setattr(sys, "executable", str(warm.folder() / "python"))
    monkeypatch.chdir(tmp_path)
    shutil.copy(SOURCE.parent / "params.yaml", tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """A store without runs: making one takes a second and more."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    mlflow_sender._connect(f"sqlite:///{path}")
    return path


@pytest.fixture
def store(checkout, empty_store):
    shutil.copy(empty_store, checkout / "mlflow.db")
    return checkout / "mlflow.db"


@pytest.fixture
def only_spool(monkeypatch):
    """Stages spool and never send."""
    monkeypatch.setattr(tracking, "_try_to_send", lambda: None)


def record(top1=1.0, history=()):
    tracking.record({"seed": 0}, {"top1_percent": top1}, history)


def tree(checkout):
    """A client, and each variant's run with those below it by name."""
    client = MlflowClient(f"sqlite:///{checkout / 'mlflow.db'}")
    found = client.search_runs([client.get_experiment_by_name("annulus").experiment_id], order_by=["start_time ASC"])
    parents = {run.info.run_id: (run, {}) for run in found if "mlflow.parentRunId" not in run.data.tags}
    for run in found:
        if run.info.run_id not in parents:
            below = parents[run.data.tags["mlflow.parentRunId"]][1]
            below.setdefault(run.info.run_name, []).append(run)
    return client, list(parents.values())


def runs(checkout):
    """A client, and the runs of stages without a headline."""
    client, variants = tree(checkout)
    return client, [run for _, below in variants for same in below.values() for run in same]


def points(client, run, name):
    return {point.step: point.value for point in client.get_metric_history(run.info.run_id, name)}


def spooled(checkout):
    return [json.loads(path.read_text()) for path in (checkout / ".annulus/tracking").glob("*.json")]


@contextmanager
def server(status, body):
    """A port on which every request gets this answer; `body` is of the request's path."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            text = body(self.path).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_POST = do_GET

        def log_message(self, *_): ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Answer) as found:
        Thread(target=found.serve_forever, daemon=True).start()
        yield found.server_address[1]
        found.shutdown()


def python(*words):
    environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
    return subprocess.Popen([sys.executable, *words], env=environment, stdout=-1, stderr=-1, text=True)


def test_a_run_holds_all_and_where_it_comes_from(checkout, store, only_spool, monkeypatch, caplog):
    commit = first_commit(checkout)
    monkeypatch.setenv("DVC_EXP_NAME", "brave-ring")
    tracking.record(
        {"seed": 3, "sampler": "ring", "samplers.${sampler}": RingParams(inner=0.01, outer=0.1)},
        {"top1_percent": 41.25, "images": 1000, "slowest_class": "cat"},
        [{"epoch": epoch, "loss_nats": 1 / epoch} for epoch in (1, 2, 4)],
    )
    assert mlflow_sender.send() == (1, 0)
    assert not caplog.records
    assert not spooled(checkout)
    client, (run,) = runs(checkout)
    assert run.data.params == {"seed": "3", "sampler": "ring", "samplers.inner": "0.01", "samplers.outer": "0.1"}
    assert run.data.metrics == {"top1_percent": 41.25, "images": 1000, "loss_nats": 0.25}
    assert points(client, run, "loss_nats") == {1: 1.0, 2: 0.5, 4: 0.25}
    assert run.info.run_name == "knn"
    tags = {"dvc.exp_name": "brave-ring", "mlflow.source.git.commit": commit, "slowest_class": "cat"}
    assert tags.items() <= run.data.tags.items()


@pytest.fixture
def variant(checkout, store, only_spool, monkeypatch):
    """A commit of this repository's params.yaml, and the experiment noisy-coho in which another sampler is chosen."""
    choose(checkout, "ring")
    first_commit(checkout)
    choose(checkout, "uniform")
    monkeypatch.setenv("DVC_EXP_NAME", "noisy-coho")
    return monkeypatch


def choose(checkout, sampler, outer=0.1):
    """Edit params.yaml: the sampler, and how wide the ring is."""
    tree = yaml.safe_load((checkout / "params.yaml").read_text())
    tree["sampler"], tree["samplers"]["ring"]["outer"] = sampler, outer
    (checkout / "params.yaml").write_text(yaml.safe_dump(tree))


def spool_stages(monkeypatch, knn=40.0):
    """What a run of two seeds leaves in the spool."""
    of = [(seed, epoch) for seed in (0, 1) for epoch in (1, 2)]
    history = [{"seed": seed, "epoch": epoch, "loss_nats": epoch + 10.0 * seed, "phase": "a"} for seed, epoch in of]
    losses = {0: {"loss_nats": 2.0}, 1: {"loss_nats": 12.0}}
    each = {0: {"top1_percent": knn - 1.0}, 1: {"top1_percent": knn + 1.0}}
    for stage, record in {
        "pretrain": ({"seeds": [0, 1]}, {"loss_nats": 7.0}, history, losses),
        "knn": ({}, {"top1_percent": knn}, [], each),
        "summary": ({}, {"knn_top1_percent": knn, "knn_top1_interval_percent": 0.5}),
    }.items():
        monkeypatch.setenv("DVC_STAGE", stage)
        tracking.record(*record)


def test_a_variant_is_one_run_with_its_headline_numbers_and_below_it_its_stages_and_seeds(checkout, variant):
    spool_stages(variant)
    assert mlflow_sender.send() == (3, 0)
    client, ((parent, below),) = tree(checkout)
    assert parent.info.run_name == "noisy-coho sampler=uniform"
    assert parent.data.metrics == {"knn_top1_percent": 40.0, "knn_top1_interval_percent": 0.5}
    assert {"sampler": "uniform", "method": "ir"}.items() <= parent.data.params.items()
    assert parent.info.status == "FINISHED"
    assert sorted(below) == ["knn", "pretrain", "seed 0", "seed 1"]
    (seed,), (pretrain,) = below["seed 1"], below["pretrain"]
    assert seed.data.metrics == {"pretrain.loss_nats": 12.0, "knn.top1_percent": 41.0}
    assert points(client, seed, "pretrain.loss_nats") == {1: 11.0, 2: 12.0}
    assert points(client, pretrain, "loss_nats") == {1: 6.0, 2: 7.0}, "the mean over seeds"


def test_a_record_that_comes_late_or_twice_finds_its_variant(checkout, variant):
    spool_stages(variant)
    spool_stages(variant, knn=50.0)  # the same setting once more
    files = {path: path.read_text() for path in sorted((checkout / ".annulus/tracking").glob("*.json"))}
    for path in files:
        path.unlink()
    for path in [*list(files)[3:], *list(files)[:3], *files]:  # the older ones late, then all again
        path.write_text(files[path])
        assert mlflow_sender.send() == (1, 0)

    _, ((parent, below),) = tree(checkout)
    assert {name: len(same) for name, same in below.items()} == {"pretrain": 2, "knn": 2, "seed 0": 1, "seed 1": 1}
    assert parent.data.metrics["knn_top1_percent"] == 50.0, "the newest, not what was sent last"
    assert below["seed 0"][0].data.metrics["knn.top1_percent"] == 49.0
    assert parent.info.end_time == max(round(json.loads(text)["ended"] * 1000) for text in files.values())


def test_what_the_selectors_choose_makes_a_variant_and_nothing_else_does(checkout, variant):
    def named(name):
        spool_stages(variant)
        mlflow_sender.send()
        names = [parent.info.run_name for parent, _ in tree(checkout)[1]]
        assert names.count(name) == 1
        return len(names)

    assert named("noisy-coho sampler=uniform") == 1
    choose(checkout, "uniform", outer=0.2)  # of the sampler that is not chosen
    assert named("noisy-coho sampler=uniform") == 1
    choose(checkout, "ring", outer=0.2)
    assert named("noisy-coho samplers.outer=0.2") == 2
    variant.delenv("DVC_EXP_NAME")
    commit = tracking.git("rev-parse", "HEAD")
    assert named(f"{commit[:7]} samplers.outer=0.2") == 3
    choose(checkout, "ring")
    assert named(commit[:7]) == 4


def test_a_row_of_a_study_is_a_variant_by_itself(checkout, variant):
    variant.setenv("DVC_STAGE", "stages/algorithms/dvc.yaml:train@RING")
    tracking.record({"settings": "RING", "run": {"sampler": "ring"}}, {"linear_top1_percent": 60.0})
    assert mlflow_sender.send() == (1, 0)
    _, ((parent, below),) = tree(checkout)
    assert not below, "sorted by a number, MLflow's table would show the row twice"
    assert parent.info.run_name == "noisy-coho algorithms/train@RING"
    assert parent.data.metrics == {"linear_top1_percent": 60.0}
    assert parent.data.params == {"settings": "RING", "run.sampler": "ring"}


def test_nothing_is_cut_or_refused_by_mlflow_limits(checkout, store, only_spool):
    params = {f"a{i}": i for i in range(250)} | {"long": "x" * 12_001, "empty": "", "none": None}
    history = [{"epoch": epoch, "loss_nats": 1.0, "top1 (%)": 2.0} for epoch in range(1200)]
    tracking.record(params, {"bound/ceiling": 1.0}, history)
    assert mlflow_sender.send() == (1, 0)
    client, (run,) = runs(checkout)
    got = run.data.params
    assert got["long"] + got["long/2"] + got["long/3"] == params["long"]
    assert (got["empty"], got["none"], len(got)) == ("", "null", 250 + 5)
    assert len(client.get_metric_history(run.info.run_id, "loss_nats")) == 1200
    assert {"top1 ___", "bound_ceiling"} <= run.data.metrics.keys()


@pytest.mark.parametrize(
    ("started", "reason"),
    [
        (lambda: nullcontext(9), ""),
        (lambda: socket.create_server(("127.0.0.1", 0)), "no answer in 1 s"),
        (lambda: server(200, lambda path: ""), "the server's answer names no experiment: it may be no MLflow server; "),
    ],
    ids=["refuses", "never answers", "answers with nothing"],
)
def test_a_server_that_does_not_take_the_numbers_costs_one_warning_and_none_of_them(
    checkout, store, monkeypatch, caplog, started, reason
):
    monkeypatch.setattr(tracking, "SERVER_SECONDS", 1 if reason.startswith("no answer") else 60)  # for a busy machine
    with started() as found:
        address = f"http://127.0.0.1:{found.getsockname()[1] if isinstance(found, socket.socket) else found}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        record(1.0)
        record(2.0)
    (warning,) = [entry.getMessage() for entry in caplog.records]
    assert warning.startswith(f"WARNING: MLflow at {address} did not take the numbers ({reason}")
    assert "`make mlflow-send` sends them later" in warning
    senders = subprocess.run(["pgrep", "-f", "annulus.pipeline.mlflow_sender"], capture_output=True, text=True).stdout
    children = [Path(f"/proc/{pid}/environ").read_bytes() for pid in senders.split()]
    assert not any(str(checkout).encode() in environment for environment in children)
    assert len(spooled(checkout)) == 2

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert python("-m", "annulus.pipeline.mlflow_sender").communicate()[0] == f"2 sent to sqlite:///{store}, 0 left\n"
    assert {run.data.metrics["top1_percent"] for run in runs(checkout)[1]} == {1.0, 2.0}
    assert not (checkout / ".annulus/tracking/failed").exists()


def test_a_server_that_failed_lately_is_left_alone(checkout, monkeypatch):
    failed, attempts = checkout / ".annulus/tracking/failed", []
    failed.parent.mkdir(parents=True)
    failed.write_text(REFUSED)
    monkeypatch.setattr(tracking, "_send_in_child", lambda: attempts.append(1))
    # Lately; long ago; with a clock that was set back; another server.
    for uri, age, tried in ((REFUSED, 60, 0), (REFUSED, 700, 1), (REFUSED, -60, 1), ("http://127.0.0.1:10", 60, 1)):
        attempts.clear()
        os.utime(failed, (time.time() - age,) * 2)
        monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        record()
        assert len(attempts) == tried, (uri, age)
    assert len(spooled(checkout)) == 4


def test_no_secret_of_an_address_reaches_a_warning_a_line_of_the_sender_or_a_file(checkout, monkeypatch, caplog):
    """The server repeats what it was asked, as many do. MLflow reads when it is loaded what it may say of it."""
    monkeypatch.setattr(tracking, "SERVER_SECONDS", 60)  # for a busy machine
    with server(503, lambda path: f"not for key-of-mine: {path}") as port:
        address = f"http://me:pass-word@127.0.0.1:{port}/?token=query%20secret#key-of-mine"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        record()
        monkeypatch.setattr(sys, "executable", PYTHON)
        by_hand = python("-m", "annulus.pipeline.mlflow_sender").communicate()
    assert f"http://***@127.0.0.1:{port}" in caplog.text
    assert by_hand[1].count("\n") == 1, "MLflow's own lines repeat the address"
    files = [path.read_text() for path in checkout.rglob("*") if path.is_file()]
    assert len(files) == 4  # params.yaml, the record, the lock, and the destination that failed
    for text in (caplog.text, *by_hand, *files):
        assert not re.search("pass-word|query.{1,3}secret|key-of-mine", text), text


def test_a_server_that_keeps_nothing_leaves_the_record_in_the_spool(checkout, store, only_spool, monkeypatch):
    record()
    monkeypatch.setattr(MlflowClient, "log_batch", lambda *_, **__: None)
    with pytest.raises(InputError, match="did not keep what it was sent: it may be no MLflow server"):
        mlflow_sender.send()
    assert len(spooled(checkout)) == 1


def test_a_store_on_this_machine_has_its_time_and_a_server_its_own(checkout, monkeypatch):
    local = ["sqlite:///runs.db", "runs", "/shared/runs", "file:runs", "file:///shared/runs"]
    servers = ["http://host", "https://host/mlflow", "postgresql://host/runs", "databricks", "databricks://me"]
    for address in local + servers:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        assert tracking._limit() == (60 if address in local else 8), address


def test_a_folder_in_place_of_the_database_and_a_spool_that_cannot_be_written_are_a_warning(checkout, caplog):
    (checkout / "mlflow.db").mkdir()
    record()
    assert "mlflow.db: unable to open database file; move it away, or name another store in" in caplog.text
    shutil.rmtree(checkout / ".annulus")
    (checkout / ".annulus").write_text("a file in the way")
    record()
    _, warning = (entry.getMessage() for entry in caplog.records)
    assert re.match(r"WARNING: not in MLflow: cannot write .* numbers are in metrics/ all the same", warning)


def test_the_child_that_loaded_beside_the_stage_is_the_one_that_sends_and_of_a_failed_stage_sends_nothing(
    checkout, store
):
    tracking.prepare()
    prepared = tracking._waiting.child
    record()
    assert prepared.returncode == 0
    assert len(runs(checkout)[1]) == 1
    assert not spooled(checkout)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tracking, "_try_to_send", lambda: None)
        record()  # of another stage
    stage = "from annulus.pipeline import tracking; tracking.prepare(); print(tracking._waiting.child.pid); exit(1)"
    child = int(python("-c", stage).communicate()[0])
    with suppress(ProcessLookupError):  # it has ended already
        select.select([os.pidfd_open(child)], [], [])
    assert len(spooled(checkout)) == 1


def test_a_record_has_the_numbers_as_the_files_have_them(checkout, only_spool):
    tracking.record({}, {"top1_percent": 100 / 3}, [{"epoch": 1, "loss_nats": 1 / 3}], {5: {"top1_percent": 200 / 3}})
    ((metrics, history, seeds),) = [(it["metrics"], it["history"], it["seeds"]) for it in spooled(checkout)]
    assert (metrics, history) == ({"top1_percent": 33.33}, [{"epoch": 1, "loss_nats": 0.3333}])
    assert seeds == {"5": {"top1_percent": 66.67}}


def test_without_dvc_or_in_another_process_nothing_is_recorded_and_no_child_started(checkout, monkeypatch):
    monkeypatch.setattr(tracking, "_sender", None)
    for name, value in (("ANNULUS_TRACKING", "off"), ("RANK", "1"), ("DVC_STAGE", None)):
        with monkeypatch.context() as patch:
            patch.setenv(name, value) if value else patch.delenv(name)
            tracking.prepare()
            if name != "RANK":  # the first process alone comes to `record`
                record()
    assert [path.name for path in checkout.iterdir()] == ["params.yaml"]


def test_a_stage_does_not_import_mlflow():
    """In a `python` that has loaded nothing."""
    check = "import sys, annulus.pipeline.stage; print([name for name in sys.modules if name.startswith('mlflow')])"
    assert python("-c", check).communicate()[0] == "[]\n"


@pytest.mark.parametrize("call", ["create_run", "log_batch", "set_terminated"])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_run_sent_in_part_is_completed_and_not_repeated(checkout, store, only_spool, monkeypatch, call, done):
    """The connection breaks before or after the server did what the call asks for."""
    record(history=[{"epoch": epoch, "loss_nats": 0.5} for epoch in range(1, 6)])
    real = getattr(MlflowClient, call)

    def broken(*arguments, **options):
        if done:
            real(*arguments, **options)
        raise ConnectionError("gone")

    monkeypatch.setattr(MlflowClient, call, broken)
    with pytest.raises(ConnectionError):
        mlflow_sender.send()
    monkeypatch.setattr(MlflowClient, call, real)
    assert len(spooled(checkout)) == 1
    assert mlflow_sender.send() == (1, 0)
    client, (run,) = runs(checkout)
    assert len(tree(checkout)[1]) == 1
    assert run.info.status == "FINISHED"
    assert [point.step for point in client.get_metric_history(run.info.run_id, "loss_nats")] == [1, 2, 3, 4, 5]
    assert run.data.metrics["top1_percent"] == 1.0


def test_a_sender_killed_while_it_makes_the_store_leaves_none(checkout, only_spool, monkeypatch):
    record()

    def killed(uri):
        Path(uri.removeprefix("sqlite:///")).write_text("half a store", encoding="utf-8")
        raise KeyboardInterrupt

    monkeypatch.setattr(mlflow_sender, "MlflowClient", killed)
    with pytest.raises(KeyboardInterrupt):
        mlflow_sender.send()
    assert not (checkout / "mlflow.db").exists()


def test_a_sender_short_of_time_starts_with_the_newest_and_keeps_the_rest(checkout, store, only_spool, monkeypatch):
    for value in (1.0, 2.0, 3.0):
        record(value)
    assert mlflow_sender.send(seconds=-1.0) == (0, 3)
    clock = iter([0, 0, 1])
    with monkeypatch.context() as patch:
        patch.setattr(mlflow_sender.time, "monotonic", lambda: next(clock, 1))
        assert mlflow_sender.send(seconds=0.5) == (1, 2)
    assert [run.data.metrics["top1_percent"] for run in runs(checkout)[1]] == [3.0]


def test_two_stages_that_end_at_once_on_a_fresh_store_make_two_runs(checkout):
    stage = "from annulus.pipeline import tracking; tracking.record({'seed': 0}, {'top1_percent': 1.0})"
    stages = [python("-c", stage) for _ in range(2)]
    assert [(stage.communicate()[1], stage.returncode) for stage in stages] == [("", 0), ("", 0)]
    assert not spooled(checkout)
    client, made = runs(checkout)
    assert len(made) == 2
    assert len(tree(checkout)[1]) == 1
    experiment = client.get_experiment(made[0].info.experiment_id)
    assert experiment.artifact_location == (checkout / "mlartifacts").as_uri()
