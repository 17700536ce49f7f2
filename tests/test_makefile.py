"""Targets of the Makefile, with a Python of two lines in place of one that installs gigabytes."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from by_path import ROOT

OUTSIDE = """#!/bin/sh
case "$*" in *"-m venv .venv"*) echo made >> made; sleep 0.3; mkdir -p .venv/bin; cp inside .venv/bin/python
cp inside .venv/bin/uv;; esac
"""


@pytest.fixture
def clone(tmp_path) -> Path:
    (tmp_path / "Makefile").write_bytes((ROOT / "Makefile").read_bytes())
    (tmp_path / "requirements.lock").write_text("a==1\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/plots_page.txt").write_text("b==1\n")
    for name, text in (("outside", OUTSIDE), ("inside", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def make_options(folder):
    """Options of a subprocess of make, without the variables of a make that runs this test."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return {"cwd": folder, "env": outside, "encoding": "utf-8"}


def make(folder, *words):
    return subprocess.run(["make", *words, "PYTHON=./outside"], capture_output=True, **make_options(folder))


@pytest.mark.parametrize(
    "words", [["repro"], ["sweep", "STUDY=a"], ["compare", "BASE=a"], ["runs"], ["restore"], ["test"]]
)
def test_a_folder_without_git_is_refused_with_the_way_out_before_anything_is_installed(clone, words):
    (clone / ".git").rmdir()
    done = make(clone, *words)
    assert (
        f"make {words[0]} needs a git clone, and this folder has no .git: clone annulus, or run git init" in done.stderr
    )
    assert (done.returncode, done.stderr.count("\n"), (clone / "made").exists()) == (2, 1, False)


@pytest.mark.parametrize("target", ["install", "check-gpu", "report", "mlflow-send"])
def test_what_needs_no_git_runs_without_it(clone, target):
    (clone / ".git").rmdir()
    done = make(clone, target)
    assert (done.returncode, (clone / "made").exists()) == (0, True), done.stderr


@pytest.mark.parametrize(("target", "missing"), [("compare", "BASE"), ("sweep", "STUDY")])
def test_a_missing_argument_is_asked_for_before_anything_is_installed(clone, target, missing):
    done = make(clone, target)
    assert f"give {missing}=, " in done.stderr
    assert (done.returncode, (clone / "made").exists()) == (2, False)


def test_repro_ends_with_the_table_which_the_stage_leaves_to_it(clone):
    repro(clone, None)
    calls = (clone / "ran").read_text().splitlines()
    assert calls == [
        "dvc repro, table: last",
        "python -m annulus_lab.pipeline.mlflow_send",
        "python -m annulus_lab.pipeline.result",
    ]


def test_mlflow_is_sent_the_studies_where_all_is_asked_for(clone):
    make(clone, "install")
    script(clone / ".venv/bin/python", 'echo "$*"')
    sent = [make(clone, "mlflow-send", *words).stdout.strip() for words in ([], ["ALL=yes"])]
    assert sent == ["-m annulus_lab.pipeline.mlflow_send", "-m annulus_lab.pipeline.mlflow_send --all"]


@pytest.mark.parametrize("lock", [None, b"schema: '2.0'\n"])
def test_repro_runs_where_dvc_s_lock_is_whole_or_there_is_none(clone, lock):
    done = repro(clone, lock)
    assert (done.returncode, (clone / "ran").exists()) == (0, True), done.stderr


@pytest.mark.parametrize("lock", [b"", b"schema: '2.0'\nstages:\n  pre"])
def test_a_lock_that_a_killed_dvc_cut_off_is_named_with_the_way_out_before_anything_runs(clone, lock):
    """DVC writes the lock in place. With a cut lock it prints "validation failed", or it runs stages again."""
    done = repro(clone, lock)
    assert done.stderr.startswith("dvc.lock was cut off as DVC wrote it: make restore brings the committed one back")
    assert (done.returncode, (clone / "ran").exists()) == (2, False)


def repro(clone, lock):
    """Runs `make repro` with programs of one line that record their calls."""
    make(clone, "install")
    script(clone / ".venv/bin/dvc", 'echo "dvc $*, table: $ANNULUS_RESULT" >> ran')
    script(clone / ".venv/bin/python", 'echo "python $*" >> ran')
    if lock is not None:
        (clone / "dvc.lock").write_bytes(lock)
    return make(clone, "repro")


def script(path, line):
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


LOCK = (ROOT / "requirements.lock").read_text()


@pytest.mark.parametrize(("driver", "build"), [("", "cpu"), ("yes", "gpu")])
def test_one_build_of_faiss_is_installed_and_its_cuda_only_where_a_driver_is(clone, driver, build):
    (clone / "requirements.lock").write_text(LOCK)
    done = make(clone, "install", f"DRIVER={driver}")
    assert done.returncode == 0, done.stderr
    pins = re.split(r"\n(?=[^ ])", LOCK.rstrip())
    blocks = {block.partition("==")[0]: block for block in pins}
    installed = re.split(r"\n(?=[^ ])", (clone / ".venv/requirements.lock").read_text().rstrip())
    assert set(installed) <= set(pins), "whole, with its hashes"
    left_out = blocks.keys() - {block.partition("==")[0] for block in installed}
    cuda_packages = {name for name in blocks if name.endswith("-cu12")}
    for name in cuda_packages:
        askers = {word for word in re.findall(r"# +(?:via )?([\w-]+)", blocks[name]) if word != "via"}
        assert askers <= cuda_packages | {"faiss-gpu"}, "nothing else needs it"
    assert left_out == ({"faiss-cpu"} if build == "gpu" else {"faiss-gpu", *cuda_packages})


def test_of_two_makes_at_once_one_installs_and_a_later_one_does_nothing(clone):
    command, options = ["make", "install", "PYTHON=./outside"], make_options(clone)
    makes = [subprocess.Popen(command, stdout=-1, stderr=-1, **options) for _ in range(2)]
    outputs = [make.communicate() for make in makes]
    assert [make.returncode for make in makes] == [0, 0], outputs
    assert sorted(outputs) == [("", ""), ("installing the pinned packages into .venv (several GB, once)\n", "")]
    assert subprocess.run(command, **options).returncode == 0
    assert (clone / "made").read_text() == "made\n"
    assert len(list(clone.glob(".venv/*-outside"))) == 2
