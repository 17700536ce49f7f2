"""What every stage does the same way: its arguments, its parameters, its errors, its results."""

import json
import shutil
from pathlib import Path

import pytest
import yaml

from annulus.config.negatives import RingParams
from annulus.config.study import Study
from annulus.errors import InputError
from annulus.pipeline import tracking
from annulus.pipeline.provenance import runs
from annulus.pipeline.stage import Results, run_stage, run_study

READS = ["seed", "samplers.${sampler}", "scales.${scale}.pretrain"]
PATHS = ["images", "metrics", "history"]


@pytest.fixture
def params(tmp_path):
    """The repository's own params.yaml, with the choices that the tests rely on."""
    path = tmp_path / "params.yaml"
    shutil.copy(Path(__file__).parents[1] / "params.yaml", path)
    tree = yaml.safe_load(path.read_text()) | {"seed": 7, "sampler": "ring", "scale": "tiny"}
    path.write_text(yaml.safe_dump(tree))
    return path


@pytest.fixture
def argv(tmp_path, params):
    paths = {"images": "images", "metrics": "m/knn.json", "history": "m/knn.csv", "params": params.name}
    return [word for name, value in paths.items() for word in (f"--{name}", str(tmp_path / value))]


@pytest.fixture
def recorded(monkeypatch):
    calls = []
    monkeypatch.setattr(tracking, "record", lambda *arguments: calls.append(arguments))
    return calls


def test_a_stage_gets_what_it_reads_and_its_results_are_written_and_tracked(tmp_path, argv, recorded):
    seen = {}

    def main(params, paths):
        """Stands for a stage."""
        seen.update(params, images=paths.images)
        return Results({"top1_percent": 41.256}, [{"epoch": 1, "loss_nats": 0.5}])

    run_stage(main, READS, PATHS, argv)

    assert seen.keys() == {*READS, "images"}
    assert seen["seed"] == 7
    assert isinstance(seen["samplers.${sampler}"], RingParams)
    assert seen["images"] == tmp_path / "images"
    assert json.loads((tmp_path / "m/knn.json").read_text()) == {"top1_percent": 41.26}
    assert (tmp_path / "m/knn.csv").read_text() == "epoch,loss_nats\n1,0.5\n"
    ((tracked, metrics, history),) = recorded
    assert (tracked["sampler"], tracked["scale"], tracked["seed"]) == ("ring", "tiny", 7)
    assert (metrics, history) == ({"top1_percent": 41.256}, [{"epoch": 1, "loss_nats": 0.5}])


def test_a_stage_that_dvc_runs_says_where_and_which_files_are_its_own(tmp_path, argv, recorded, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "knn")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run_stage(lambda params, paths: Results({"k": 1}, [{"epoch": 1}]), READS, PATHS, argv)
    (run,) = runs(tmp_path)
    assert (run.stage, set(run.files)) == ("knn", {"m/knn.json", "m/knn.csv"})
    assert run.matches(tmp_path)


def test_a_stage_that_failed_has_not_run(tmp_path, argv, recorded, monkeypatch):
    def main(params, paths):
        raise InputError("images: 3 are too few; take more")

    monkeypatch.setenv("DVC_STAGE", "knn")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    with pytest.raises(SystemExit):
        run_stage(main, READS, PATHS, argv)
    assert runs(tmp_path) == []


def test_a_stage_without_metrics_writes_none(tmp_path, argv, recorded):
    run_stage(lambda params, paths: Results({}), ["seed"], ["images"], [*argv[:2], *argv[-2:]])
    assert not (tmp_path / "m").exists()
    assert len(recorded) == 1


def test_a_mistake_of_the_user_is_one_sentence_and_leaves_nothing(tmp_path, argv, recorded):
    def main(params, paths):
        raise InputError("images: 3 are too few; take more")

    with pytest.raises(SystemExit, match=r"^ERROR: images: 3 are too few; take more$") as stop:
        run_stage(main, READS, PATHS, argv)
    assert stop.value.__cause__ is None
    assert not (tmp_path / "m").exists()
    assert not recorded


def test_no_stage_works_before_the_whole_file_is_right(params, argv, recorded):
    params.write_text(params.read_text().replace("outer:", "otter:", 1))

    def main(params, paths):
        raise AssertionError("ran")

    with pytest.raises(SystemExit, match=r"ERROR: (?s:.*)otter: unknown key; did you mean 'outer'"):
        run_stage(main, ["seed"], PATHS, argv)


def test_metrics_that_cannot_be_written_are_a_sentence(tmp_path, argv, recorded):
    (tmp_path / "m").write_text("a file in the way")
    with pytest.raises(SystemExit, match=r"ERROR: cannot write .*m/knn\.json: File exists; what stood"):
        run_stage(lambda params, paths: Results({"k": 1}), READS, PATHS, argv)
    assert not recorded


def test_resume_state_is_forgotten_only_when_the_files_are_there(tmp_path, argv, recorded):
    seen = []
    results = Results({"k": 1}, [{"epoch": 1}], lambda: seen.append((tmp_path / "m/knn.csv").exists()))
    run_stage(lambda params, paths: results, READS, PATHS, argv)
    assert seen == [True]


def test_a_missing_argument_is_named(argv, capsys):
    with pytest.raises(SystemExit):
        run_stage(lambda params, paths: Results({}), READS, PATHS, argv[2:])
    assert "the following arguments are required: --images" in capsys.readouterr().err


# --- stages of studies --------------------------------------------------------------------------------


@pytest.fixture
def study_argv(tmp_path, argv):
    """With a study of one row, at scale demo while the root's file is at scale tiny."""
    choices = {"dataset": "shapes", "method": "ir", "bound": "infonce", "sampler": "ball", "anneal": "none"}
    choices |= {"neighbours": "none", "views": "standard", "backbone": "alexnet-fast", "schedule": "cosine"}
    study = {"scale": "demo", "seeds": [3, 4], "defaults": choices, "scales": {"demo": {}}, "rows": {"MoCo v1": {}}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))
    return [*argv, "--study", str(tmp_path / "study.yaml"), "--row", "MoCo v1"]


def test_a_study_s_stage_gets_its_study_and_what_it_is_about(tmp_path, study_argv, recorded):
    seen = []

    def main(study, arguments):
        """Stands for a stage of a study."""
        params = study.variant(arguments.row, study.row("rows", arguments.row), study.params.seeds[0])
        seen.extend([study, arguments, params])
        return Results({"top1_percent": 41.256}, [{"epoch": 1, "loss_nats": 0.5}])

    run_study(main, PATHS, ["row"], study_argv)

    study, arguments, params = seen
    assert isinstance(study, Study)
    assert (study.path, arguments.images, arguments.row) == (tmp_path / "study.yaml", tmp_path / "images", "MoCo v1")
    assert (params.scale, params.sampler, params.seed) == ("demo", "ball", 3)
    assert json.loads((tmp_path / "m/knn.json").read_text()) == {"top1_percent": 41.26}
    assert (tmp_path / "m/knn.csv").read_text() == "epoch,loss_nats\n1,0.5\n"
    ((tracked, metrics, history),) = recorded
    assert (tracked["row"], tracked["scale"], tracked["seeds"]) == ("MoCo v1", "demo", [3, 4])
    assert tracked["defaults"]["sampler"] == "ball"
    assert (metrics, history) == ({"top1_percent": 41.256}, [{"epoch": 1, "loss_nats": 0.5}])


@pytest.mark.parametrize("gone", ["--study", "--row", "--metrics"])
def test_an_argument_that_a_study_s_stage_lacks_is_named(study_argv, gone, capsys):
    place = study_argv.index(gone)
    with pytest.raises(SystemExit):
        run_study(lambda study, arguments: Results({}), PATHS, ["row"], study_argv[:place] + study_argv[place + 2 :])
    assert f"the following arguments are required: {gone}" in capsys.readouterr().err


def test_a_mistake_in_a_study_s_file_or_row_is_one_sentence_and_leaves_nothing(tmp_path, study_argv, recorded):
    def main(study, arguments):
        return Results(study.row("rows", "MoCo v2"))

    with pytest.raises(SystemExit, match=r"^ERROR: .*study\.yaml: rows has no 'MoCo v2'; did you mean 'MoCo v1'\?$"):
        run_study(main, PATHS, ["row"], study_argv)
    (tmp_path / "study.yaml").write_text("scale: demo")
    with pytest.raises(SystemExit, match=r"^ERROR: .*study\.yaml: seeds: None refused; "):
        run_study(main, PATHS, ["row"], study_argv)
    assert not (tmp_path / "m").exists()
    assert not recorded


def test_a_study_s_stage_says_where_it_ran(tmp_path, study_argv, recorded, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "stages/algorithms/dvc.yaml:train@MoCo v1")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    run_study(lambda study, arguments: Results({"k": 1}, [{"epoch": 1}]), PATHS, ["row"], study_argv)
    (run,) = runs(tmp_path)
    assert (run.stage, set(run.files)) == ("stages/algorithms/dvc.yaml:train@MoCo v1", {"m/knn.json", "m/knn.csv"})


def test_a_study_s_resume_state_is_forgotten_only_when_the_files_are_there(tmp_path, study_argv, recorded):
    seen = []
    results = Results({"k": 1}, [{"epoch": 1}], lambda: seen.append((tmp_path / "m/knn.csv").exists()))
    run_study(lambda study, arguments: results, PATHS, ["row"], study_argv)
    assert seen == [True]
