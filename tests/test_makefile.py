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


def test_of_two_makes_at_once_one_installs_and_a_later_one_does_nothing(clone):
    command = ["make", "install", "PYTHON=./outside"]
    outside = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    ways = {"cwd": clone, "env": outside, "encoding": "utf-8"}  # this test may run in a make of its own
    makes = [subprocess.Popen(command, stdout=-1, stderr=-1, **ways) for _ in range(2)]
    outputs = [make.communicate() for make in makes]
    assert [make.returncode for make in makes] == [0, 0], outputs
    assert sorted(outputs) == [("", ""), ("installing the pinned packages into .venv (several GB, once)\n", "")]
    assert subprocess.run(command, **ways).returncode == 0
    assert (clone / "made").read_text() == "made\n"
    assert len(list(clone.glob(".venv/*-outside"))) == 2
