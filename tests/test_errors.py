"""Without its optional packages a room names the packages to install in one sentence."""

import re

import pytest
import warm
from by_path import ROOT
from without import run_without


@pytest.mark.parametrize(
    ("arguments", "room", "missing"),
    [
        (["-c", "import annulus_lab.config.file"], "annulus_lab.config", ["yaml"]),
        (
            ["-c", "import annulus_lab.studies.detection.splits"],
            "annulus_lab.studies.detection",
            ["faster_coco_eval"],
        ),
        (["-m", "annulus", "report"], "annulus_lab.report", ["jinja2", "matplotlib"]),
        (["-c", "import annulus_lab.site"], "annulus_lab.site", ["mkdocs_jupyter"]),
        (["-m", "annulus", "report"], "annulus_lab.report", ["jinja2"]),
        (["-m", "annulus", "picture"], "annulus_lab.config", ["pydantic"]),
        (["-m", "annulus", "look", "."], "annulus.look", ["PIL", "tqdm"]),
        (["-m", "annulus", "sweep", "stages/algorithms"], "annulus_lab.sweep", ["submitit"]),
        ([f"{ROOT}/stages", "knn"], "annulus_lab.pipeline", ["pydantic", "tqdm"]),
    ],
)
def test_a_room_without_its_packages_names_them(arguments, room, missing, tmp_path):
    python = warm.folder() / "python"
    done = run_without(missing, arguments, tmp_path, python)
    assert done.returncode == 1
    *before, line = done.stderr.splitlines()
    assert f"{room} needs {' and '.join(missing)}, which this Python ({python}) has not" in line
    assert "`make install` installs all, then `. .venv/bin/activate` activates it" in line
    pip_lines = '; where annulus-ssl is installed, pip install "annulus-ssl[look]"; elsewhere pip install '
    pip_lines += '"annulus-ssl[look] @ git+https://ADDRESS", with the repository\'s address'
    assert (pip_lines in line) == (room == "annulus.look"), "the laboratory is nowhere but in a checkout"
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
    """Without tqdm progress is printed as lines, on a terminal too."""
    monkeypatch.chdir(tmp_path)
    done = run_without(["tqdm", "pydantic", "yaml", "dvc"], ["-c", TRAINING], tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(list(tmp_path.glob(".annulus/checkpoints/mine/*/state.pt"))) == 1
    line, last = done.stderr.splitlines()
    assert line == "a line"
    assert last.startswith("loss 2, ")
