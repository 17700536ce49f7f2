"""MLflow receives every result once. If it fails, sending ends in seconds with one sentence without a secret."""

import hashlib
import json
import logging
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import time
from contextlib import closing, contextmanager, nullcontext
from dataclasses import asdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import warm
from measured import POINTS, measure, measure_study
from mlflow import MlflowClient
from report_root import first_commit
from test_detection_levels import trained

from annulus.encoders.saved import load_encoder, save_encoder
from annulus.errors import InputError
from annulus_lab import export
from annulus_lab.pipeline import mlflow_artifacts, mlflow_page, mlflow_send
from annulus_lab.pipeline.provenance import StageRecord
from annulus_lab.pipeline.variants import NUMBERS, STAGES

SOURCE = Path(mlflow_send.__file__).parents[2]


@pytest.fixture(scope="module")
def empty_store(tmp_path_factory):
    """Store without runs, made once because it takes over a second."""
    path = tmp_path_factory.mktemp("store") / "mlflow.db"
    mlflow_send._experiment(MlflowClient(f"sqlite:///{path}"), "annulus", mlflow_send.TAGS)
    return path


@pytest.fixture
def checkout(tmp_path, monkeypatch, empty_store):
    """Checkout with numbers and a store, without a server. A URL cannot hold its name unquoted."""
    for name in [name for name in os.environ if name.startswith(("MLFLOW_TRACKING", "MLFLOW_EXPERIMENT"))]:
        monkeypatch.delenv(name)
    folder = tmp_path / "a%20b?mode=ro"
    folder.mkdir()
    measure(folder)
    (folder / ".gitignore").write_text("*.db\n.annulus\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr(logging, "disable", lambda: None)  # main's call would last for all tests
    # MLflow caches an opened store by its address, even if the current folder has changed.
    monkeypatch.setattr(mlflow_send, "LOCAL", f"sqlite:///{tmp_path.name}.db")
    shutil.copy(empty_store, store())
    return folder


def store():
    return Path(mlflow_send.LOCAL.removeprefix("sqlite:///"))


def tree():
    """Client, and each variant's run with its seeds' runs by name."""
    client = MlflowClient(mlflow_send.LOCAL)
    runs = client.search_runs([client.get_experiment_by_name("annulus").experiment_id], order_by=["start_time ASC"])
    parents = {run.info.run_id: (run, {}) for run in runs if "mlflow.parentRunId" not in run.data.tags}
    for run in runs:
        if run.info.run_id not in parents:
            parents[run.data.tags["mlflow.parentRunId"]][1][run.info.run_name] = run
    return client, list(parents.values())


def points(client, run, name):
    return [(point.step, point.value) for point in client.get_metric_history(run.info.run_id, name)]


def python(*words, **environment):
    command = [warm.folder() / "python", "-m", *words]
    environment = {**os.environ, "PYTHONPATH": str(SOURCE), **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


@contextmanager
def server(status, body, pause=0.0, **headers):
    """Yields a port where every request gets this answer, byte by byte if `pause` is set. `body` takes the request."""

    class Answer(BaseHTTPRequestHandler):
        def do_GET(self):
            text = body(self).encode()
            self.send_response(status)
            for name, value in ({"Content-Length": len(text)} | headers).items():
                self.send_header(name.replace("_", "-"), str(value))
            self.end_headers()
            for byte in text if pause else [text]:
                self.wfile.write(bytes([byte]) if pause else byte)
                time.sleep(pause)

        do_POST = do_GET

        def log_message(self, *_): ...

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_): ...

    with Server(("127.0.0.1", 0), Answer) as listener:
        Thread(target=listener.serve_forever, daemon=True).start()
        yield listener.server_address[1]
        listener.shutdown()
        listener.block_on_close = False


def test_a_variant_is_a_run_with_its_headline_numbers_and_below_it_its_seeds(checkout, capsys):
    commit = first_commit(checkout)
    measure(checkout, "uniform", knn=38.0)
    page = mlflow_send.send()
    assert capsys.readouterr() == (f"MLflow at {mlflow_send.LOCAL}: 2 new, 2 in all\n", "")
    client, ((base, _), (parent, below)) = tree()
    assert base.info.run_name.endswith(commit[:7])
    assert parent.info.run_name == "workspace sampler=uniform"
    numbers = {"knn_top1_percent": 38.0, "knn_top1_interval_percent": 0.5}
    assert parent.data.metrics == numbers | {"prepare/classes": 3.0, "pretrain/loss_nats": 7.0}
    assert points(client, parent, "pretrain/loss_nats") == [(1, 6.0), (2, 7.0)]
    assert {"sampler": "uniform", "knn.k": "20"}.items() <= parent.data.params.items()
    tags = {"pretrain/processor": "a CPU", "mlflow.source.git.commit": commit, "mlflow.source.name": "dvc.yaml"}
    assert tags.items() <= parent.data.tags.items()
    assert sorted(below) == ["seed 0", "seed 1"]
    seed = below["seed 1"]
    assert seed.data.metrics == {"pretrain/loss_nats": 12.0, "knn/top1_percent": 39.0}
    assert points(client, seed, "pretrain/loss_nats") == [(1, 11.0), (2, 12.0), (2, 12.0)]
    assert {run.info.status for run in (parent, seed)} == {"FINISHED"}
    experiment = client.get_experiment_by_name("annulus")
    assert page.startswith(f"#/experiments/{experiment.experiment_id}/runs?")
    view = experiment.tags[f"mlflow.sharedViewState.{page.rpartition('viewStateShareKey=')[2]}"]
    assert '"selectedColumns": ["metrics.`knn_top1_percent`"' in view


def test_what_is_there_is_not_sent_again_and_what_was_deleted_stays_deleted(checkout, capsys):
    for made in (mlflow_send.send, mlflow_send.send):
        made()
    assert re.findall(r"\d new", capsys.readouterr().out) == ["1 new", "0 new"]
    client, ((parent, _),) = tree()
    client.delete_run(parent.info.run_id)
    mlflow_send.send()
    assert "0 new, 1 in all" in capsys.readouterr().out


@pytest.mark.parametrize("call", ["create_run", "log_batch", "set_terminated"])
@pytest.mark.parametrize("done", [False, True], ids=["before", "after"])
def test_a_run_sent_in_part_is_completed_and_not_repeated(checkout, monkeypatch, call, done):
    """The connection breaks before or after the server executes the call."""
    real, calls = getattr(MlflowClient, call), []

    def broken(*arguments, **options):
        calls.append(call)
        if len(calls) < 3:
            return real(*arguments, **options)
        if done:
            real(*arguments, **options)
        raise ConnectionError("gone")

    monkeypatch.setattr(MlflowClient, call, broken)
    with pytest.raises(InputError, match=r"did not take the numbers \(ConnectionError: gone"):
        mlflow_send.send()
    monkeypatch.setattr(MlflowClient, call, real)
    mlflow_send.send()
    client, ((parent, below),) = tree()
    assert (parent.info.status, len(below)) == ("FINISHED", 2)
    assert points(client, parent, "pretrain/loss_nats") == [(1, 6.0), (2, 7.0)]
    assert len(points(client, below["seed 0"], "pretrain/loss_nats")) == 3


def test_seeds_that_were_sent_are_not_sent_again(checkout, monkeypatch):
    """Otherwise a variant that takes longer than one attempt would never be complete."""
    real, sent = MlflowClient.log_batch, []

    def watched(client, run, *content):
        sent.append(run)
        if len(sent) == 3:  # the variant's own, after its two seeds
            raise ConnectionError("gone")
        return real(client, run, *content)

    monkeypatch.setattr(MlflowClient, "log_batch", watched)
    with pytest.raises(InputError, match="gone"):
        mlflow_send.send()
    mlflow_send.send()
    assert len(sent) == 4
    assert sent[3] == sent[2]


def study_runs(study):
    client = MlflowClient(mlflow_send.LOCAL)
    experiment = client.get_experiment_by_name(f"annulus/{study}").experiment_id
    return client, experiment, {run.info.run_name: run for run in client.search_runs([experiment])}


def test_a_study_is_an_experiment_and_a_row_of_its_table_a_run_and_both_stay_deleted(checkout, capsys):
    measure_study(checkout)
    measure_study(checkout, "other")
    (checkout / "stages/other/metrics/points_figure.csv").unlink()
    mlflow_send.send(studies=True)
    out, err = capsys.readouterr()
    assert "5 new, 5 in all" in out
    assert err.startswith("not in MLflow: study other: stages/other/metrics/points_figure.csv is missing, as")
    client, _, runs = study_runs("toys")
    ring = runs["points ring 0.5"]
    assert ring.info.status == "FINISHED"
    assert ring.data.metrics == {"seeds": 3.0, "top1_percent": 40.0, "top1_interval_percent": 1.5}
    assert ring.data.params == {"file": "stages/toys/metrics/points.csv", "series": "ring", "value": "0.5"}
    assert {"top1_verdict": "better", "scale": "demo"}.items() <= ring.data.tags.items()
    client.delete_run(ring.info.run_id)
    client.delete_experiment(study_runs("other")[1])
    measure_study(checkout, points=POINTS + "ball,,3,39.0,,base,demo\n")
    mlflow_send.send(studies=True)
    assert "1 new, 5 in all" in capsys.readouterr().out
    assert sorted(study_runs("toys")[2]) == ["points ball", "points uniform"]


def test_studies_are_sent_where_all_is_asked_for_and_a_line_names_each_that_takes_time(checkout, capsys):
    """Otherwise a run of the main line would wait a minute for the studies of a fresh clone."""
    measure_study(checkout, points=POINTS + "".join(f"ring,{i},3,1.0,,base,demo\n" for i in range(9)))
    mlflow_send.main([])
    assert capsys.readouterr() == (f"MLflow at {mlflow_send.LOCAL}: 1 new, 1 in all\n", "")
    mlflow_send.main(["--all"])
    out, err = capsys.readouterr()
    assert out.endswith("10 new, 11 in all\n")
    assert err == "MLflow: 10 rows of results to record in 'annulus/toys'\n"


def test_a_table_sent_in_part_is_completed_over_pages_of_a_search(checkout, monkeypatch):
    measure_study(checkout, points=POINTS + "".join(f"ring,{i},3,1.0,,base,demo\n" for i in range(5)))
    real, calls = MlflowClient.log_batch, []

    def broken(*arguments, **options):
        calls.append(arguments)
        if len(calls) == 6:  # three are the main line's
            raise ConnectionError("gone")
        return real(*arguments, **options)

    monkeypatch.setattr(MlflowClient, "log_batch", broken)
    monkeypatch.setattr(mlflow_send, "PAGE_RUNS", 2)
    with pytest.raises(InputError, match=r"gone\).*; `make mlflow-send ALL=yes` sends them once that is mended"):
        mlflow_send.send(studies=True)
    mlflow_send.send(studies=True)
    client, toys, runs = study_runs("toys")
    assert len(client.search_runs([toys])) == 6
    assert {(run.info.status, "top1_percent" in run.data.metrics) for run in runs.values()} == {("FINISHED", True)}
    assert len(calls) == 6 + 4, "two were there"


def test_what_is_more_than_mlflow_takes_at_once_arrives(checkout):
    client, ((run, _),) = (mlflow_send.send(), tree())[1]
    one = client.create_run(run.info.experiment_id)
    params = {f"a{i}": "1" for i in range(250)} | {"long": "x" * 12_001, "empty": ""}
    mlflow_send._log(client, one, params, {"top1 (%)": 2.0}, {"loss": [(epoch, 1.0) for epoch in range(1200)]})
    got = client.get_run(one.info.run_id)
    assert (got.data.params["empty"], len(got.data.params)) == ("", 252)
    assert len(points(client, got, "loss")) == 1200
    assert got.data.metrics["top1 ___"] == 2.0


@pytest.mark.parametrize(
    ("start", "reason"),
    [
        (lambda: nullcontext(9), "MlflowException: API request to "),
        (lambda: socket.create_server(("127.0.0.1", 0)), "no answer in 2 s"),
        pytest.param(
            lambda: server(200, lambda request: "{" + " " * 60, pause=0.5), "no answer in 2 s", marks=pytest.mark.slow
        ),
        pytest.param(
            lambda: server(429, lambda request: "", Retry_After=3600), "no answer in 2 s", marks=pytest.mark.slow
        ),
        (
            lambda: server(200, lambda request: ""),
            "the server's answer names no experiment; check the",
        ),
    ],
    ids=["refuses", "never answers", "a byte now and then", "Retry-After: 3600", "answers with nothing"],
)
def test_a_server_that_does_not_take_the_numbers_costs_seconds_and_one_sentence(checkout, monkeypatch, start, reason):
    monkeypatch.setattr(mlflow_send, "SERVER_SECONDS", 2)
    before = time.monotonic()
    with start() as resource:
        address = f"http://127.0.0.1:{resource.getsockname()[1] if isinstance(resource, socket.socket) else resource}"
        monkeypatch.setenv("MLFLOW_TRACKING_URI", address)
        sentence = (
            rf"^MLflow at {address} did not take the numbers \({reason}.*\. They are in metrics/; `make mlflow-send` "
        )
        with pytest.raises(InputError, match=sentence):
            mlflow_send.send()
    assert time.monotonic() - before < 5
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    mlflow_send.send()
    assert len(tree()[1]) == 1, "nothing is lost"


def test_no_secret_of_an_address_or_the_environment_is_shown(checkout, monkeypatch):
    """The server repeats the request and its token, as some servers do. MLflow's own lines would too."""
    answer = "not for key-of-mine: {0.path} {0.headers}"
    with server(403, lambda request: answer.format(request)) as port:
        address = f"http://me:pass-word@127.0.0.1:{port}/?token=query%20secret#key-of-mine"
        status, text = python(
            "annulus_lab.pipeline.mlflow_send", MLFLOW_TRACKING_URI=address, MLFLOW_TRACKING_TOKEN="to-ken"
        )
    assert (status, text.count("\n")) == (1, 1), text
    assert f"WARNING: MLflow at http://***@127.0.0.1:{port}/" in text
    assert "403" in text
    assert not re.search("pass-word|query.{1,3}secret|key-of-mine|to-ken", text), text


def test_a_server_that_takes_a_run_has_no_address_printed(checkout, capsys):
    """MLflow prints a run's address with its password when the run ends."""
    _, ((run, _),) = (mlflow_send.send(), tree())[1]
    capsys.readouterr()
    with server(200, lambda request: '{"run_info": {}, "run": {"info": {}, "data": {}}}') as port:
        mlflow_send._log(MlflowClient(f"http://me:pass-word@127.0.0.1:{port}"), run, {}, {"top1": 1.0}, {})
    assert capsys.readouterr() == ("", "")


def test_a_deleted_experiment_is_named_with_the_ways_out(checkout, monkeypatch):
    client = MlflowClient(mlflow_send.LOCAL)
    experiment = client.get_experiment_by_name("annulus").experiment_id
    client.delete_experiment(experiment)
    with pytest.raises(InputError, match=rf"'annulus' was deleted: `mlflow experiments restore -x {experiment}` b"):
        mlflow_send.send()
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "other")
    mlflow_send.send()
    client.restore_experiment(experiment)
    mlflow_send.send()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo, lambda path: path.write_text("no database, but long enough")])
def test_what_stands_in_place_of_the_database_is_named(checkout, make):
    store().unlink()
    make(store())
    with pytest.raises(InputError, match=r"SQLite cannot read .*\.db: .*; move it away, or name another store"):
        mlflow_send.send()


@pytest.mark.parametrize(
    ("statements", "message"),
    [
        ("CREATE TABLE songs (title TEXT)", r"is a database of another program \(tables songs\); name another store"),
        (
            "CREATE TABLE alembic_version (version_num TEXT); CREATE TABLE notes (id INTEGER)",
            r"is a database of another program \(tables alembic_version, notes\); name another store",
        ),
        (
            "CREATE TABLE alembic_version (version_num TEXT); CREATE TABLE experiments (id INTEGER);"
            "INSERT INTO alembic_version VALUES ('ffffffffffff')",
            r"was made by a newer MLflow than [\d.]+ \(schema ffffffffffff\); install that MLflow, or name another sto",
        ),
    ],
)
def test_a_database_of_another_program_or_version_stays_as_it_is(checkout, statements, message):
    store().unlink()
    with closing(sqlite3.connect(store())) as connection:
        connection.executescript(statements)
    before = store().read_bytes()
    with pytest.raises(InputError, match=message):
        mlflow_send.send()
    assert store().read_bytes() == before


def test_a_run_has_its_data_set_with_digest_and_size(checkout):
    numbers = checkout / "metrics/main/prepare.json"
    before = hashlib.md5(numbers.read_bytes()).hexdigest()
    numbers.write_text('{"classes": 3, "digest": "db4768bde3c61d17", "train_images": 3600, "red_mean": 0.5}')
    lock = (checkout / "dvc.lock").read_text()
    (checkout / "dvc.lock").write_text(lock.replace(before, hashlib.md5(numbers.read_bytes()).hexdigest()))
    mlflow_send.send()
    _, ((run, _),) = tree()
    ((dataset,),) = [[each.dataset for each in run.inputs.dataset_inputs]]
    assert (dataset.name, dataset.digest) == ("shapes", "db4768bde3c61d17")
    assert json.loads(dataset.profile) == {"classes": 3, "train_images": 3600}


@pytest.mark.parametrize(("edited", "milliseconds"), [(None, 15_000), ("knn", 1)])
def test_a_run_takes_as_long_as_the_stages_that_made_its_numbers(checkout, edited, milliseconds):
    records = Path(".annulus/runs")
    records.mkdir(parents=True)
    for seconds, stage in enumerate(STAGES, start=1):
        content = Path(NUMBERS[stage]).read_bytes() if Path(NUMBERS[stage]).exists() else b""
        digest = "another" if stage == edited else hashlib.sha256(content).hexdigest()
        files = {f"data/main/numbers/{stage}.json": digest}
        fields = {"started": 1.0, "processor": "", "cores": 1, "gpus": [], "torch": None, "commit": None}
        record = StageRecord(stage=stage, seconds=float(seconds), experiment=None, files=files, **fields)
        (records / f"{stage}.json").write_text(json.dumps(asdict(record)))
    mlflow_send.send()
    (run, seeds), *_ = tree()[1]
    assert run.info.end_time - run.info.start_time == milliseconds
    assert run.info.end_time == pytest.approx(Path("metrics/summary.json").stat().st_mtime * 1000, abs=2)
    assert {seed.info.start_time for seed in seeds.values()} == {run.info.start_time}


def test_the_papers_tables_are_sent_before_encoders_which_may_be_missing(checkout, monkeypatch):
    monkeypatch.setattr(mlflow_artifacts, "_annulus", lambda _root, *words: " ".join(words))
    with pytest.raises(InputError, match="data/main/encoders are missing or of another run; `dvc repro` or `dvc pull`"):
        mlflow_send.send(artifacts=True)
    client, ((parent, _),) = tree()
    assert [each.path for each in client.list_artifacts(parent.info.run_id)] == ["papers.txt"]


def test_the_picture_and_the_encoders_are_sent_where_they_are_asked_for(checkout, monkeypatch):
    for seed in (0, 1):
        save_encoder(trained(architecture="convnet"), checkout / f"data/main/encoders/{seed}.safetensors")
    (checkout / "params.yaml").touch()
    monkeypatch.setattr(mlflow_artifacts, "is_locked", lambda *_: True)
    monkeypatch.setattr("annulus_lab.export.stale", lambda files: ["metrics were made with other code"])

    def run(root, name, *words):
        if name == "picture":
            Path(words[-1]).write_text("<svg/>", encoding="utf-8")
        elif name == "presets":
            return "ring.table1a  Table 1(a)"
        else:
            export.main(words)

    monkeypatch.setattr(mlflow_artifacts, "_annulus", run)
    mlflow_send.send(artifacts=True)
    client, ((parent, below),) = tree()
    assert [each.path for each in client.list_artifacts(parent.info.run_id)] == ["annulus.svg", "papers.txt"]
    papers = client.download_artifacts(parent.info.run_id, "papers.txt", str(checkout))
    assert Path(papers).read_text(encoding="utf-8") == "ring.table1a  Table 1(a)"
    files = client.list_artifacts(below["seed 1"].info.run_id, "encoder")
    assert [each.path for each in files] == ["encoder/README.md", "encoder/config.json", "encoder/model.safetensors"]
    local = client.download_artifacts(below["seed 1"].info.run_id, "encoder", str(checkout))
    assert "This encoder: 1." in (Path(local) / "README.md").read_text()
    load_encoder(local)


def test_a_command_that_fails_says_why(tmp_path):
    with pytest.raises(InputError, match=r"^annulus has no command 'pictrue'; did you mean 'picture'\?"):
        mlflow_artifacts._annulus(tmp_path, "pictrue")


def test_a_store_that_a_lab_shares_may_be_on_another_disk_and_is_made_once(checkout, monkeypatch, tmp_path):
    """A rename cannot move a file to another disk. A second sender must not replace what the first has filled."""
    moved, shared = [], tmp_path / "shared" / "lab.db"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shared}")
    monkeypatch.setattr(Path, "replace", lambda self, target: moved.append(self.rename(target)))
    with pytest.raises(InputError, match=r"there is no folder .*shared for lab\.db; make it\). They are in metrics/"):
        mlflow_send.send()
    shared.parent.mkdir()

    class Slow(MlflowClient):
        def search_experiments(self, **arguments):
            shared.touch()  # by another sender
            return super().search_experiments(**arguments)

    mlflow_send.send()
    assert [path.parent for path in moved] == [shared.parent]
    shared = shared.with_name("other.db")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{shared}")
    monkeypatch.setattr(mlflow_send, "MlflowClient", Slow)
    mlflow_send._client()
    assert len(moved) == 1
    assert sorted(path.name for path in shared.parent.iterdir()) == ["lab.db", "other.db"]


@pytest.mark.slow
def test_two_senders_at_once_on_a_fresh_store_make_one_run_in_this_checkout(checkout):
    store().unlink()
    first_commit(checkout)
    command = [warm.folder() / "python", "-m", "annulus_lab.pipeline.mlflow_send"]
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    senders = [subprocess.Popen(command, env=environment, stdout=-1, stderr=-1, text=True) for _ in range(2)]
    outputs = [(*sender.communicate(timeout=100), sender.returncode) for sender in senders]
    assert sorted(out.split()[3] for out, _, _ in outputs) == ["0", "1"]
    assert {(error, status) for _, error, status in outputs} == {("", 0)}
    Path("mlflow.db").rename(store())
    assert len(tree()[1]) == 1
    status = subprocess.check_output(["git", "status", "--porcelain"], cwd=checkout, text=True)
    assert status == "", "neither half a store nor artifacts"
    assert [path.name for path in checkout.parent.iterdir()] == [checkout.name]


def test_the_page_has_the_studies_too(checkout, monkeypatch, capsys):
    measure_study(checkout)
    served = []
    monkeypatch.setattr(os, "execve", lambda program, command, environment: served.append(command))
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mlflow_page.main(["--port", str(port)])
    assert "3 new, 3 in all" in capsys.readouterr().out
    assert len(served) == 1
    assert len(study_runs("toys")[2]) == 2


def test_the_page_says_a_taken_port_before_anything_else(checkout):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        status, text = python("annulus_lab.pipeline.mlflow_page", "--port", str(port))
    assert status == 1
    assert text == f"ERROR: port {port}: [Errno 98] Address already in use; take another one: make mlflow PORT=5001\n"
