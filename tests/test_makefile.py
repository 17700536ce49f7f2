"""`make install`, with a Python of two lines in place of one that installs gigabytes."""

import os
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
    (tmp_path / ".dvc").mkdir()
    (tmp_path / ".dvc/plots_page.txt").write_text("b==1\n")
    for name, text in (("outside", OUTSIDE), ("inside", "#!/bin/sh\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    return tmp_path


def ways_of(folder):
    """How make is called there: this test may run in a make of its own."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return {"cwd": folder, "env": outside, "encoding": "utf-8"}


@pytest.mark.parametrize("lock", [None, b"schema: '2.0'\n"])
def test_repro_runs_where_dvc_s_lock_is_whole_or_there_is_none(clone, lock):
    done = repro(clone, lock)
    assert (done.returncode, (clone / "ran").exists()) == (0, True), done.stderr


@pytest.mark.parametrize("lock", [b"", b"schema: '2.0'\nstages:\n  pre"])
def test_a_lock_that_a_killed_dvc_cut_off_is_named_with_the_way_out_before_anything_runs(clone, lock):
    """DVC writes it in place; its own words are "validation failed", or it runs stages again."""
    done = repro(clone, lock)
    assert done.stderr.startswith("dvc.lock was cut off as DVC wrote it: make restore brings the committed one back")
    assert (done.returncode, (clone / "ran").exists()) == (2, False)


def repro(clone, lock):
    """`make repro` with a dvc of one line."""
    subprocess.run(["make", "install", "PYTHON=./outside"], check=True, **ways_of(clone))
    (clone / ".venv/bin/dvc").write_text("#!/bin/sh\ntouch ran\n")
    (clone / ".venv/bin/dvc").chmod(0o755)
    (clone / "metrics").mkdir()
    (clone / "metrics/summary.json").write_text("{}")
    if lock is not None:
        (clone / "dvc.lock").write_bytes(lock)
    return subprocess.run(["make", "repro", "PYTHON=./outside"], capture_output=True, **ways_of(clone))


def test_of_two_makes_at_once_one_installs_and_a_later_one_does_nothing(clone):
    command, ways = ["make", "install", "PYTHON=./outside"], ways_of(clone)
    makes = [subprocess.Popen(command, stdout=-1, stderr=-1, **ways) for _ in range(2)]
    outputs = [make.communicate() for make in makes]
    assert [make.returncode for make in makes] == [0, 0], outputs
    assert sorted(outputs) == [("", ""), ("installing the pinned packages into .venv (several GB, once)\n", "")]
    assert subprocess.run(command, **ways).returncode == 0
    assert (clone / "made").read_text() == "made\n"
    assert len(list(clone.glob(".venv/*-outside"))) == 2
