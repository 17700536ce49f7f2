"""Each piece of DVC's Python interface that a sweep uses, asked of the DVC that is installed."""

import json
import logging
import subprocess

import pytest
from dvc.lock import Lock, LockError
from dvc.repo import Repo

pytest.importorskip("submitit", reason="submitit is not installed; it comes with `make install`")

from annulus.errors import InputError
from annulus.sweep.stages import Stage, read_stages

PIPELINE = """
vars: [{rows: {MoCo: 1, IR-nce: 2}}]
stages:
  settings:
    cmd: cp given settings
    deps: [given]
    outs: [settings]
  train:
    foreach: ${rows}
    do:
      cmd: cp settings ${key} --row ${item}
      deps: [settings]
      outs: ["${key}"]
"""
TRAINED = [Stage("train@MoCo", "cp settings MoCo --row 1"), Stage("train@IR-nce", "cp settings IR-nce --row 2")]


@pytest.fixture
def pipeline(tmp_path, monkeypatch):
    """A study whose settings are made, in a folder below the root."""
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    with Repo.init():
        pass
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "dvc.yaml").write_text(PIPELINE)
        (tmp_path / name / "given").write_text("settings")
    with Repo() as repo:
        repo.reproduce("a/dvc.yaml:settings")
    return (tmp_path / "a/dvc.yaml").relative_to(tmp_path)


def test_a_study_s_stages_have_names_and_commands_and_change_with_their_files(pipeline):
    assert read_stages(pipeline, lambda name: False) == [Stage("settings", "cp given settings"), *TRAINED]
    settings, moco, _ = read_stages(pipeline, lambda name: name != "train@IR-nce")
    assert (settings.changed, moco.changed) == (False, True)
    (pipeline.parent / "given").write_text("other settings")
    assert read_stages(pipeline, lambda name: True)[0].changed is True


def test_a_stage_that_another_process_runs_is_neither_changed_nor_not(pipeline):
    lock = pipeline.parents[1] / ".dvc/tmp/rwlock"
    written = {str((pipeline.parent / "settings").absolute()): {"pid": 1, "cmd": "dvc repro"}}
    lock.write_text(json.dumps({"write": written, "read": {}}))
    assert read_stages(pipeline, lambda name: name == "settings")[0].changed is None


def test_dvc_s_lock_is_waited_for_held_while_files_are_compared_and_given_back(pipeline, monkeypatch, caplog):
    lock, held = Lock.lock, []

    def busy_once(own):
        held.append(own)
        if len(held) == 1:
            raise LockError("busy")
        lock(own)

    monkeypatch.setattr(Lock, "lock", busy_once)
    seen = []
    with caplog.at_level(logging.INFO, logger="annulus"):
        read_stages(pipeline, lambda name: seen.append(held[-1].is_locked))
    assert caplog.messages == ["another dvc command has DVC's lock; waiting for it"]
    assert seen == [True, True, True]
    assert not held[-1].is_locked


def test_a_file_that_dvc_cannot_read_is_a_sentence(pipeline):
    pipeline.write_text("stages: [")
    with pytest.raises(InputError, match=r"^a/dvc\.yaml: .*a/dvc\.yaml"):
        read_stages(pipeline, lambda name: True)
