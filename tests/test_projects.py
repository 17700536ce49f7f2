"""The main line and a study as DVC projects in one checkout, and the stages that an edit of code runs in both."""

import copy
import re
import subprocess
import time

import pytest
from checkout import STAGES, Checkout, ran
from test_studies import two_rows

pytestmark = pytest.mark.slow

STUDY = "algorithms"
UP_TO_DATE = "Data and pipelines are up to date."
ROW_STAGES = {"train@MoCo", "train@IRing (+C_i)"}
BY_RANK = "src/annulus/negatives/by_rank.py"


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Checkout:
    """A checkout in which both have run from nothing, at the same time."""
    checkout = Checkout(tmp_path_factory.mktemp("annulus"), STUDY)
    checkout.cut(STUDY, two_rows)
    command = checkout.command("repro", study=STUDY)
    with subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as study:
        assert sorted(ran(checkout.dvc("repro"))) == sorted(STAGES)
        output = study.communicate()[0]
    assert study.returncode == 0, output
    assert set(ran(output)) == {"settings", "images", "table"} | ROW_STAGES
    checkout.commit()
    return checkout


@pytest.fixture
def checkout(repository) -> Checkout:
    """The checkout of both, restored to its commit after the test."""
    yield repository
    repository.restore()
    repository.git("clean", "-fdq", "src")
    for study, first in (("", "data/main/code"), (STUDY, "data/settings")):
        repository.dvc("checkout", "--quiet", "--force", first, study=study)


@pytest.fixture
def clone(repository, tmp_path) -> Checkout:
    """Clone of the repository: code, locks and metrics, without data."""
    subprocess.run(["git", "clone", "-q", repository.folder, tmp_path / "clone"], check=True)
    checkout = copy.copy(repository)
    checkout.folder = tmp_path / "clone"
    return checkout


def test_the_main_line_and_a_study_run_side_by_side(repository):
    assert repository.read("metrics/summary.json")["knn_top1_percent"] > 0
    assert list(repository.read("stages/algorithms/metrics/rows/MoCo.json")) == ["0", "1"]


def test_bytecode_changes_no_stage(checkout):
    modules = "annulus.negatives.by_rank, annulus.training.loop, annulus_lab.studies.shared.runs"
    checkout.run("-c", f"import sys; sys.dont_write_bytecode = False; import {modules}")
    assert list(checkout.folder.glob("src/annulus/negatives/__pycache__/by_rank.*.pyc"))
    assert UP_TO_DATE in checkout.dvc("status")
    assert UP_TO_DATE in checkout.dvc("status", study=STUDY)


def test_the_main_line_s_garbage_is_no_study_s_data(checkout):
    cache = checkout.project(STUDY) / ".dvc/cache"
    before = {path for path in cache.rglob("*") if path.is_file()}
    assert before
    checkout.dvc("gc", "-w", "-f")
    assert {path for path in cache.rglob("*") if path.is_file()} == before
    assert UP_TO_DATE in checkout.dvc("status", study=STUDY)


def test_words_about_code_run_the_first_stages_alone(checkout):
    checkout.edit(BY_RANK, '"""', '"""Once more: ')
    checkout.edit(BY_RANK, "\nimport ", "\n# a comment\n\nimport ")
    assert checkout.changed() == {"check"}
    assert checkout.changed(STUDY) == {"settings"}
    assert ran(checkout.dvc("repro")) == ["check"]
    assert ran(checkout.dvc("repro", study=STUDY)) == ["settings"]


def test_a_new_sampler_trains_nothing_again(checkout):
    (checkout.folder / "src/annulus/negatives/other.py").write_text(
        "from annulus.negatives.samplers import Uniform\n\n\nclass Other(Uniform):\n    pass\n"
    )
    interface = "src/annulus/negatives/__init__.py"
    checkout.edit(
        interface,
        "from annulus.negatives.neighbours",
        "from annulus.negatives.other import Other\nfrom annulus.negatives.neighbours",
    )
    checkout.edit(interface, '    "ring": Ring', '    "other": Other,\n    "ring": Ring')
    checkout.edit("params.yaml", "  uniform: {}", "  uniform: {}\n  other: {}")
    assert ran(checkout.dvc("repro")) == ["check"]
    assert ran(checkout.dvc("repro", study=STUDY)) == ["settings"]


def test_code_that_runs_is_run_again_where_it_runs(checkout):
    checkout.edit(BY_RANK, "\nimport ", "\nx = 1\nimport ")
    assert (checkout.changed(), checkout.changed(STUDY)) == ({"check"}, {"settings"})
    assert ran(checkout.dvc("repro")) == ["check", "pretrain", "diagnostics"]
    assert set(ran(checkout.dvc("repro", study=STUDY))) == {"settings"} | ROW_STAGES, "the table's numbers are the same"


def test_a_second_run_of_a_project_is_refused_at_once_and_the_first_goes_on(checkout):
    checkout.edit("params.yaml", "      epochs: 2\n", "      epochs: 25\n")
    command = checkout.command("repro", "pretrain")
    with subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as first:
        while "encoders" not in (checkout.folder / ".dvc/tmp/rwlock").read_text():
            assert first.poll() is None
            time.sleep(0.1)
        output = checkout.dvc("repro", status=255)
        assert first.poll() is None
        first_output = first.communicate()[0]
    assert "is busy, it is being blocked by" in output
    assert ran(output) == []
    assert first.returncode == 0, first_output
    assert ran(first_output) == ["pretrain"]


def test_a_second_experiment_is_refused_before_it_changes_params_yaml(checkout):
    """DVC would write the values of -S, and the first run would read them at its next stage."""
    checkout.edit("params.yaml", "      epochs: 2\n", "      epochs: 100\n")
    params = (checkout.folder / "params.yaml").read_text()
    with subprocess.Popen(**checkout.command("repro", "knn"), stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as one:
        held = checkout.folder / ".dvc/tmp/exps/rwlock"
        while not held.exists() or "refs/exps/stash" not in held.read_text():
            assert one.poll() is None
            time.sleep(0.1)
        output = checkout.dvc("exp", "run", "-S", "sampler=uniform", status=255)
        assert one.poll() is None
        assert (checkout.folder / "params.yaml").read_text() == params
        first_output = one.communicate()[0]
    assert re.search(r"'refs/exps/stash' is busy, it is being blocked by:\n", output), output
    assert one.returncode == 0, first_output
    assert ran(first_output) == ["pretrain", "embed", "knn"]


def locks(checkout: Checkout, *words: str, status: int = 0) -> str:
    """Output of `make check-locks`."""
    command = checkout.command(PYTHONPATH="src")
    command["args"] = [command["args"][0], "-m", "annulus_lab.pipeline.locks", *words]
    done = subprocess.run(**command, capture_output=True)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_clone_without_data_tells_what_an_edit_runs_again_and_keeps_numbers_after_one_of_code_alone(clone):
    as_they_are = f"^dvc.lock: {len(STAGES)} stages, as the code.*\n^stages/algorithms/dvc.lock: 5 stages, as the code"
    assert re.search(as_they_are, locks(clone), re.MULTILINE)
    assert clone.changed_files() == []
    clone.edit(BY_RANK, "\nimport ", "\nx = 1\nimport ")
    output = locks(clone, status=1)
    assert re.search("^dvc.lock: .* would run again: pretrain", output, re.MULTILINE)
    assert re.search(r"^stages/algorithms/dvc.lock: .* would run again: train@", output, re.MULTILINE)

    clone.edit("params.yaml", "inner: 0.01", "inner: 0.02")
    assert re.search(r"^ERROR: .*params.*edited too; KEEP=yes is for", locks(clone, "--keep", status=1), re.MULTILINE)
    clone.edit("params.yaml", "inner: 0.02", "inner: 0.01")
    further = "  own: {crop: , flip: 0.5, jitter: , grayscale: 0, blur: , rand_augment: , patches: , operators: {}}\n"
    clone.edit("params.yaml", "\nview_sets:\n", f"\nview_sets:\n{further}")  # new keys that no run selected
    kept = locks(clone, "--keep")
    assert re.search("^dvc.lock: .* kept: pretrain", kept, re.MULTILINE)
    assert re.search(as_they_are, locks(clone), re.MULTILINE)
    changed = ["dvc.lock", "params.yaml", BY_RANK, "stages/algorithms/dvc.lock"]
    assert clone.changed_files() == changed, "the numbers stay"
