"""Without its optional packages a room says in one sentence what to install."""

import re
import sys

import pytest
import warm
from by_path import ROOT
from without import run_without


@pytest.mark.parametrize(
    ("arguments", "room", "missing", "extra"),
    [
        (["-c", "import annulus.config.file"], "annulus.config", ["yaml"], "pipeline"),
        (
            ["-c", "import annulus.studies.detection.splits"],
            "annulus.studies.detection",
            ["faster_coco_eval"],
            "detection",
        ),
        (["-m", "annulus", "report"], "annulus.report", ["jinja2", "matplotlib"], "report"),
        (["-m", "annulus.site"], "annulus.site", ["nbclient"], "docs"),
        (["-m", "annulus", "report"], "annulus.report", ["jinja2"], "report"),
        (["-m", "annulus", "picture"], "annulus.config", ["pydantic"], "pipeline"),
        (["-m", "annulus", "look", "."], "annulus.look", ["PIL", "tqdm"], "pipeline"),
        (["-m", "annulus", "sweep", "stages/algorithms"], "annulus.sweep", ["submitit"], "sweep"),
        ([f"{ROOT}/stages", "knn"], "annulus.pipeline", ["pydantic", "tqdm"], "pipeline"),
    ],
)
def test_a_room_without_its_packages_names_them_and_the_extra(arguments, room, missing, extra, tmp_path):
    # What a Python says of a module that it cannot find only a usual one says.
    python = sys.executable if arguments == ["-m", room] else warm.folder() / "python"
    done = run_without(missing, arguments, tmp_path, python)
    assert done.returncode == 1
    *before, line = done.stderr.splitlines()
    assert f"{room} needs {' and '.join(missing)}, which this Python ({python}) has not" in line
    assert "`make install` brings all, then `. .venv/bin/activate` takes it" in line
    assert f'; where annulus-ssl is installed, pip install "annulus-ssl[{extra}]"; elsewhere' in line
    assert f'pip install "annulus-ssl[{extra}] @ git+https://ADDRESS", with the repository\'s address' in line
    assert not before or arguments[0] == "-c", "a command ends in one line"


KMEANS = """
import torch
from annulus.running.workers import compute_with
from annulus.negatives.clusters import kmeans
compute_with(1)
print("running")
kmeans(torch.eye(4), clusters=2, iterations=1, runs=1, seed=0)
"""


def test_without_faiss_only_what_needs_it_refuses_and_names_both_builds(tmp_path):
    done = run_without(["faiss"], ["-c", KMEANS], tmp_path)
    assert done.stdout == "running\n"
    builds = (
        r"k-means on a CPU needs faiss, .*; install one of its builds: pip install faiss-cpu, or for a GPU .*faiss-gpu$"
    )
    assert re.search(f"^ModuleNotFoundError: {builds}", done.stderr, re.MULTILINE), done.stderr


TRAINING = """
import logging, sys
from dataclasses import dataclass
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint

@dataclass(frozen=True)
class Ring:
    inner: float

logging.basicConfig(level=logging.INFO, format="%(message)s")
sys.stderr.isatty = lambda: True
with Checkpoint("mine", {"ring": Ring(0.1)}) as checkpoint:
    checkpoint.save({"epoch": 1})
progress.report(1, 2, lambda: "loss 3")
progress.say("a line")
progress.report(2, 2, lambda: "loss 2", ended=True)
"""


def test_progress_and_checkpoints_work_without_a_package_of_an_extra(tmp_path, monkeypatch):
    """On a terminal too progress is lines, without tqdm's bars."""
    monkeypatch.chdir(tmp_path)
    done = run_without(["tqdm", "pydantic", "yaml", "dvc"], ["-c", TRAINING], tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob(".annulus/checkpoints/mine/*/state.pt"))) == 1
    line, last = done.stderr.splitlines()
    assert line == "a line"
    assert last.startswith("loss 2, ")
