"""Without its optional packages a room says in one sentence what to install."""

import sys

import pytest
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
        (["-m", "annulus.report"], "annulus.report", ["jinja2", "matplotlib"], "report"),
        (["-m", "annulus", "report"], "annulus.report", ["jinja2"], "report"),
        (["-m", "annulus", "picture"], "annulus.config", ["pydantic"], "pipeline"),
        (["-m", "annulus.sweep", "stages/algorithms"], "annulus.sweep", ["submitit"], "sweep"),
        ([f"{ROOT}/stages", "knn"], "annulus.pipeline", ["pydantic", "tqdm"], "pipeline"),
    ],
)
def test_a_room_without_its_packages_names_them_and_the_extra(arguments, room, missing, extra, tmp_path):
    done = run_without(missing, arguments, tmp_path)
    assert done.returncode == 1
    *before, line = done.stderr.splitlines()
    assert f"{room} needs {' and '.join(missing)}, which this Python ({sys.executable}) has not" in line
    assert "`make install` brings all, then `. .venv/bin/activate` takes it" in line
    assert f'; where annulus-ssl is installed, pip install "annulus-ssl[{extra}]"; elsewhere' in line
    assert f'pip install "annulus-ssl[{extra}] @ git+https://ADDRESS", with the repository\'s address' in line
    assert not before or arguments[0] == "-c", "a command ends in one line"
