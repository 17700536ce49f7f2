"""The report's context: commit, experiment, parameters, studies and stages."""

import subprocess
from datetime import UTC, datetime

import pytest
import report_root
from stated import stated_text

from annulus_lab.pipeline import provenance
from annulus_lab.report.page.content import gather
from annulus_lab.report.page.context import OTHER_NUMBERS, context
from annulus_lab.report.page.html import html
from annulus_lab.report.page.markdown import markdown
from annulus_lab.report.page.sections import Empty

NOW = datetime(2026, 11, 21, 9, 5, tzinfo=UTC)


@pytest.fixture(autouse=True)
def no_experiment(monkeypatch):
    monkeypatch.delenv("DVC_EXP_NAME", raising=False)


def write_record(root, stage, started, written=(), experiment=None, gpus=()):
    """Writes a record of a run with the current digests of its files."""
    record = {
        "stage": stage, "started": started, "seconds": 10.0, "processor": "AMD EPYC", "cores": 2,
        "gpus": gpus, "torch": "2.9", "commit": "c" * 40, "experiment": experiment,
        "files": {name: provenance._sha256(root / name) for name in written},
    }  # fmt: skip
    (root / ".annulus/runs").mkdir(parents=True, exist_ok=True)
    (root / f".annulus/runs/{stage}.json").write_text(provenance.json.dumps(record))


def test_metrics_of_other_parameters_are_said_first_and_no_gain_is_printed(tmp_path):
    report_root.main_line(tmp_path)
    report_root.over_uniform(tmp_path)
    params = "sampler: {}\nsamplers: {{ring: {{inner: 0.01}}, uniform: {{}}}}\n"
    for name, text in report_root.with_lock({"params.yaml": params.format("ring")}).items():
        (tmp_path / name).write_text(text)
    assert context(tmp_path, NOW).outdated == []
    (tmp_path / "params.yaml").write_text(params.format("uniform"))
    report = gather(tmp_path, NOW)
    sentence = "The main line's metrics were made with sampler: ring; run `dvc repro`"
    assert report.context.outdated == [sentence]
    assert markdown(report).startswith(f"**{sentence}.**\n\n# What was measured here")
    page = html(report)
    assert page.index("metrics were made with sampler: ring; run <code>dvc repro</code>.") < page.index("<h1>")
    assert "gain 1.20" not in page


def test_a_metrics_file_of_another_run_is_named_as_it_is_written(tmp_path):
    report_root.main_line(tmp_path)
    files = {"params.yaml": "sampler: ring\nsamplers: {ring: {}}\n", "metrics/summary.json": "{}"}
    for name, text in report_root.with_lock(files).items():
        if not name.startswith("metrics/"):
            (tmp_path / name).write_text(text)
    sentence = "The main line's metrics/summary.json differs from dvc.lock; run `dvc repro`"
    assert context(tmp_path, NOW).outdated == [sentence]


@pytest.mark.parametrize("sampler", ["ring", "uniform"])
def test_the_first_section_s_command_fits_the_checkout(tmp_path, sampler):
    report_root.params(tmp_path, stated_text().replace("sampler: ring", f"sampler: {sampler}"))
    report_root.main_line(tmp_path)
    uncommitted = gather(tmp_path, NOW).gain
    report_root.first_commit(tmp_path)
    committed = gather(tmp_path, NOW).gain
    (tmp_path / "metrics/summary.json").write_text("{}")
    changed = gather(tmp_path, NOW).gain
    if sampler == "uniform":
        assert {uncommitted, committed, changed} == {
            Empty("the main line's own negatives are uniform, so it gains nothing over them")
        }
        return
    assert committed.reason == "metrics/comparisons/uniform.csv is not there"
    assert uncommitted.reason == changed.reason
    assert changed.reason == f"{committed.reason}; commit first, since `make restore` goes back to the commit"
    assert committed.command == changed.command
    assert committed.command.startswith("dvc exp run -n uniform -S sampler=uniform && make restore && make compare")


def test_commit_and_what_changed_since(tmp_path):
    commit = report_root.first_commit(tmp_path)
    about = context(tmp_path, NOW)
    assert (about.commit, about.changed_files, about.time) == (commit, 0, "2026-11-21 09:05 UTC")
    (tmp_path / "new").write_text("x")
    assert context(tmp_path, NOW).changed_files == 1


def test_studies_say_their_scale_and_seeds_and_a_broken_one_what_is_wrong(tmp_path):
    report_root.params(tmp_path, "seed: 0\nsampler: rnig\n")
    for name, text in (
        ("algorithms", "scale: demo\nseeds: [0, 1]\ndefaults: {dataset: shapes}\n"),
        ("broken", "a: ["),
        ("of_another", "study: of_another\nof: algorithms\n"),
    ):
        (tmp_path / "stages" / name).mkdir(parents=True)
        (tmp_path / "stages" / name / "params.yaml").write_text(text)
    about = context(tmp_path, NOW)
    one, broken, inheriting = about.studies
    assert (inheriting.scale, inheriting.dataset, inheriting.seeds, inheriting.fault) == ("", "", "", "")
    assert (one.name, one.scale, one.dataset, one.seeds) == ("algorithms", "demo", "shapes", "0, 1")
    assert "is not YAML" in broken.fault
    assert "params.yaml" in about.faults[0]
    assert str(tmp_path) not in broken.fault + about.faults[0], "the place of the checkout is not told"


def test_stages_say_whose_numbers_are_here_and_the_experiment_is_that_of_these(tmp_path, monkeypatch):
    report_root.main_line(tmp_path)
    write_record(tmp_path, "knn", 175.0, ["metrics/main/knn.json"], "lossy-gong")
    write_record(tmp_path, "linear", 100.0, ["metrics/main/linear.json"], "another")
    write_record(tmp_path, "embed", 300.0)
    write_record(tmp_path, "summary", 500.0, ["metrics/summary.csv"], "lossy-gong")
    write_record(tmp_path, "study:table", 400.0, ["metrics/main/prepare.json"], "of-a-study")
    (tmp_path / "metrics/main/linear.json").write_text("{}")
    head = report_root.first_commit(tmp_path)
    assert context(tmp_path, NOW).experiment is None, "killed before its end, or removed since"
    for name in ("lossy-gong", "of-a-study"):
        subprocess.run(["git", "update-ref", f"refs/exps/{head[:2]}/{head[2:]}/{name}", head], cwd=tmp_path, check=True)
    about = context(tmp_path, NOW)
    assert about.experiment == "lossy-gong"
    linear, knn, embed, *_ = about.stages
    assert (linear.stage, linear.numbers, linear.experiment) == ("linear", OTHER_NUMBERS, "another")
    assert (knn.stage, knn.numbers, knn.machine) == ("knn", "of this run", "AMD EPYC, 2 cores")
    assert (embed.stage, embed.numbers) == ("embed", "it writes no metrics")
    assert knn.end == "1970-01-01 00:03 UTC"
    (tmp_path / "metrics/summary.csv").write_text("")
    assert context(tmp_path, NOW).experiment is None, "put back: only data/ is of the experiment"
    monkeypatch.setenv("DVC_EXP_NAME", "queued-one")
    assert context(tmp_path, NOW).experiment == "queued-one"


def test_the_runs_of_a_matrix_are_one_line_with_each_machine_once(tmp_path):
    report_root.main_line(tmp_path)
    files = ["metrics/main/knn.json", "metrics/main/linear.json"]
    write_record(tmp_path, "train@a", 100.0, files[:1], gpus=["H100"] * 3)
    write_record(tmp_path, "train@b", 50.0, files[1:])
    write_record(tmp_path, "train@c", 20.0)
    (line,) = context(tmp_path, NOW).stages
    assert (line.stage, line.runs, line.seconds, line.end) == ("train", 3, 30.0, "1970-01-01 00:01 UTC")
    assert line.machine == "AMD EPYC, 2 cores; AMD EPYC, 2 cores, 3 H100"
    assert (line.torch, line.commit, line.experiment) == ("2.9", "c" * 10, "")
    assert line.numbers == "of these runs"
    (tmp_path / files[0]).write_text("{}")
    assert context(tmp_path, NOW).stages[0].numbers == "1 of 2 of these runs"


def test_the_variant_is_its_choices_and_the_sections_that_they_choose(tmp_path):
    report_root.params(tmp_path)
    about = context(tmp_path, NOW)
    assert (about.choices["sampler"], about.choices["neighbours"]) == ("ring", "none")
    assert about.parameters["samplers.ring.outer"] == "0.1"
    assert "optimizer.momentum" in about.parameters
    assert not [name for name in about.parameters if name.startswith("samplers.ball")]
    assert not [name for name in about.choices if name.startswith(("samplers", "optimizer"))]
