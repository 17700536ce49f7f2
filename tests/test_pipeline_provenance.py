"""Records of stage runs: place, time, and the files that hold their numbers."""

import json
import logging
import os
import socket
import subprocess

import pytest
from report_root import first_commit

from annulus.files.results import write_text
from annulus_lab.pipeline import provenance
from annulus_lab.pipeline.provenance import StageRecord, record, stage_records


def stage():
    """Stand-in for a stage's main. Tests import it, so no script runs."""


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.setenv("DVC_STAGE", "knn")
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)
    (tmp_path / "metrics").mkdir()
    (tmp_path / "metrics/knn.json").write_text('{"top1_percent": 41.2}\n')
    return tmp_path


def test_a_record_says_where_and_when_and_of_which_commit_and_experiment(checkout, monkeypatch):
    commit, started = first_commit(checkout), provenance.STARTED
    monkeypatch.setenv("DVC_EXP_NAME", "lossy-gong")
    monkeypatch.setattr(provenance.time, "time", lambda: started + 12.34)
    record(stage, [checkout / "metrics/knn.json"], {})
    (run,) = stage_records(checkout)
    assert (run.stage, run.started, run.seconds) == ("knn", started, 12.3)
    assert (run.commit, run.experiment) == (commit, "lossy-gong")
    assert run.processor == provenance.processor() != ""
    assert run.cores >= 1
    (file,) = (checkout / ".annulus/runs").iterdir()
    assert str(checkout) not in file.read_text()
    assert socket.gethostname() not in json.loads(file.read_text()).values()


def test_only_numbers_that_the_run_wrote_are_its_own_until_another_run_or_git_replaces_them(checkout, tmp_path_factory):
    dependency, other = checkout / "metrics/dependency.json", tmp_path_factory.mktemp("elsewhere") / "elsewhere.json"
    paths = [dependency, other, checkout / "weights.safetensors"]
    for path in paths:
        path.write_text("{}")
    knn = checkout / "metrics/knn.json"
    paths += [checkout / "metrics", checkout / "absent.csv", knn]
    before = provenance.marks(paths)
    write_text(knn, knn.read_text())  # the same numbers again
    os.utime(knn, (0, 0))  # a file system whose clock is behind
    record(stage, paths, before)
    (run,) = stage_records(checkout)
    assert set(run.files) == {"metrics/knn.json"}
    assert run.matches(checkout)
    (checkout / "metrics/knn.json").write_text('{"top1_percent": 12.0}\n')
    assert not run.matches(checkout)
    (checkout / "metrics/knn.json").unlink()
    assert not run.matches(checkout)
    assert StageRecord("embed", 0.0, 1.0, "cpu", 1, [], None, None, None, {}).matches(checkout), (
        "nothing to be replaced"
    )


def test_every_stage_has_one_record_whatever_its_name(checkout, monkeypatch):
    stages = ["../../outside", "stages/algorithms/dvc.yaml:train@LA", "train@IRing (+C_i)"]
    for name in stages * 2:
        monkeypatch.setenv("DVC_STAGE", name)
        record(stage, [], {})
    assert sorted(run.stage for run in stage_records(checkout)) == stages
    assert len(list((checkout / ".annulus/runs").iterdir())) == 3


def test_a_script_run_by_hand_is_called_after_its_file(checkout, monkeypatch):
    monkeypatch.delenv("DVC_STAGE")
    record(stage, [], {})
    assert not (checkout / ".annulus").exists(), "what a test calls is no run"
    source = provenance.Path(provenance.__file__).parents[2]
    (checkout / "probe.py").write_text(
        "import sys\nfrom pathlib import Path\nfrom annulus_lab.pipeline.provenance import record\n"
        "def main(): ...\npath = Path(sys.argv[1])\npath.write_text('{}')\n"
        "record(main, [path], {})"
    )
    for file, expected in (("../elsewhere.json", []), ("here.json", ["probe"])):
        command = [provenance.sys.executable, "probe.py", file]
        subprocess.run(command, env={"PYTHONPATH": str(source), "PATH": ""}, check=True)
        assert [run.stage for run in stage_records(checkout)] == expected


@pytest.mark.timeout(20)
def test_a_record_that_cannot_be_written_or_read_is_left_out_with_a_warning(checkout, caplog):
    (checkout / ".annulus").write_text("a file in the way")
    record(stage, [], {})
    assert "the report will not know where knn ran" in caplog.text
    (checkout / ".annulus").unlink()
    record(stage, [], {})
    bad = checkout / ".annulus/runs/bad.json"
    for content in (b"[]", b'{"stage": 3}', b"\xff", None):
        bad.unlink(missing_ok=True)
        os.mkfifo(bad) if content is None else bad.write_bytes(content)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            assert [run.stage for run in stage_records(checkout)] == ["knn"]
        assert "bad.json is not a record of a run; it is left out" in caplog.text, content
