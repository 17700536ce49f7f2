"""Without its optional packages a room says in one sentence what to install."""

from pathlib import Path

import pytest
from without import run_without

from annulus.extras import require

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("module", "room", "missing", "extra"),
    [
        ("annulus.report.plots", "annulus.report", ["matplotlib"], "report"),
        ("annulus.pipeline.stage", "annulus.pipeline", ["dvc", "mlflow"], "pipeline"),
        ("annulus.config.file", "annulus.config", ["yaml"], "pipeline"),
    ],
)
def test_a_room_without_its_packages_names_them_and_the_extra(module, room, missing, extra, tmp_path):
    done = run_without(missing, ["-c", f"import {module}"], tmp_path)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: {room} needs {' and '.join(missing)}, not installed here; pip install 'annulus[{extra}]'"
    )


def test_the_report_s_command_is_one_line(tmp_path):
    done = run_without(["jinja2", "matplotlib"], ["-m", "annulus.report"], tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "annulus.report needs jinja2 and matplotlib, not installed here; pip install 'annulus[report]'" in line


def test_a_stage_is_one_line(tmp_path):
    done = run_without(["mlflow", "pydantic"], [str(ROOT / "stages"), "knn"], tmp_path)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line == (
        "ERROR: annulus.pipeline needs mlflow and pydantic, not installed here; pip install 'annulus[pipeline]'"
    )


def test_what_is_installed_is_not_asked_for():
    require("annulus.report", "report", ["json", "torch"])
