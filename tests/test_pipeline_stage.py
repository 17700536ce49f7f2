"""What every stage does the same way: its arguments, its parameters, its errors, its results."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm
import yaml
from by_path import ROOT, script
from report_root import first_commit
from test_config_study import DEFAULTS

from annulus.config.negatives import RingParams
from annulus.config.study import Study
from annulus.errors import InputError
from annulus.pipeline import stage, tracking
from annulus.pipeline.provenance import runs
from annulus.pipeline.stage import Results, run_resolved, run_stage, write_settings

READS = ["seeds", "samplers.${sampler}", "scales.${scale}.pretrain"]
PATHS = ["images", "metrics", "history"]


@pytest.fixture
def params(tmp_path):
    """The repository's own params.yaml, with the choices that the tests rely on."""
    path = tmp_path / "params.yaml"
    tree = yaml.safe_load((ROOT / "params.yaml").read_text()) | {"seeds": [7], "sampler": "ring", "scale": "tiny"}
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


@pytest.fixture
def settings(tmp_path, argv):
    """The arguments of a study's stage."""
    (tmp_path / "MoCo v1.json").write_text(json.dumps({"scale": "demo", "seeds": [3, 4], "run": {"knn": {"k": 5}}}))
    return [*argv[:-2], "--settings", str(tmp_path / "MoCo v1.json")]


def read(folder):
    return json.loads((folder / "m/knn.json").read_text()), (folder / "m/knn.csv").read_text()


def test_a_stage_gets_what_it_reads_and_its_results_are_written_and_tracked(tmp_path, argv, settings, recorded):
    seen = []

    def main(params, paths):
        """Stands for a stage."""
        seen.append((params, paths.images))
        return Results({"top1_percent": 41.256}, [{"epoch": 1, "loss_nats": 0.5}])

    run_stage(main, READS, PATHS, argv)
    assert read(tmp_path) == ({"top1_percent": 41.26}, "epoch,loss_nats\n1,0.5\n")
    (tmp_path / "m/knn.json").unlink()
    run_resolved(main, PATHS, settings)
    assert read(tmp_path) == ({"top1_percent": 41.26}, "epoch,loss_nats\n1,0.5\n")

    (params, images), of_study = seen
    assert (params.keys(), params["seeds"], images) == ({*READS}, [7], tmp_path / "images")
    assert isinstance(params["samplers.${sampler}"], RingParams)
    assert of_study == ({"scale": "demo", "seeds": [3, 4], "run": {"knn": {"k": 5}}}, tmp_path / "images")
    (tracked, *numbers), other = recorded
    assert (tracked["sampler"], tracked["scale"], tracked["seeds"]) == ("ring", "tiny", [7])
    assert numbers == [{"top1_percent": 41.256}, [{"epoch": 1, "loss_nats": 0.5}], {}]
    assert other == ({"settings": "MoCo v1", **of_study[0]}, *numbers)


def test_a_stage_with_seeds_writes_each_and_tracks_their_means(tmp_path, argv, recorded):
    seeds = {seed: {"top1_percent": 40.0 + seed, "k": 20, "worst_class": f"class {seed}"} for seed in (0, 3)}
    histories = {seed: [{"epoch": 1, "loss_nats": 0.5 * seed}] for seed in seeds}
    run_stage(lambda params, paths: Results.of_seeds(seeds, histories), READS, PATHS, argv)
    found = {str(seed): numbers for seed, numbers in seeds.items()}
    assert read(tmp_path) == (found, "seed,epoch,loss_nats\n0,1,0.0\n3,1,1.5\n")
    ((_, metrics, history, by_seed),) = recorded
    assert (metrics, len(history), by_seed) == ({"top1_percent": 41.5, "k": 20}, 2, seeds)
    assert Results.of_seeds({5: {"k": 20}}).metrics == {"k": 20}


def test_a_stage_that_dvc_runs_says_where_and_which_files_are_its_own(tmp_path, argv, settings, recorded, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "knn")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def failing(params, paths):
        raise InputError("images: 3 are too few; take more")

    with pytest.raises(SystemExit, match=r"^ERROR: images: 3 are too few; take more$") as stop:
        run_stage(failing, READS, PATHS, argv)
    assert stop.value.__cause__ is None
    assert not (tmp_path / "m").exists()
    assert recorded == runs(tmp_path) == []
    for start in (
        lambda: run_stage(lambda params, paths: Results({"k": 1}, [{"epoch": 1}]), READS, PATHS, argv),
        lambda: run_resolved(lambda settings, paths: Results({"k": 2}, [{"epoch": 1}]), PATHS, settings),
    ):
        start()
        (run,) = runs(tmp_path)
        assert (run.stage, set(run.files)) == ("knn", {"m/knn.json", "m/knn.csv"})
        assert run.matches(tmp_path)


def test_an_unknown_word_about_tracking_is_refused_before_the_work(argv, recorded, monkeypatch):
    monkeypatch.setenv("ANNULUS_TRACKING", "no")
    with pytest.raises(SystemExit, match=r"^ERROR: ANNULUS_TRACKING is 'no'; give on or off, or unset it for on$"):
        run_stage(lambda params, paths: 1 / 0, READS, PATHS, argv)
    tracking.prepare()  # leaves it to the stage to say so


def test_resume_state_is_forgotten_only_when_the_files_are_there(tmp_path, argv, recorded):
    seen = []
    results = Results({"k": 1}, [{"epoch": 1}], written=lambda: seen.append((tmp_path / "m/knn.csv").exists()))
    run_stage(lambda params, paths: results, READS, PATHS, argv)
    assert seen == [True]


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A checkout whose committed metrics DVC has deleted, as it does before it starts a stage."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "m").mkdir()
    for name in ("knn.json", "knn.csv", "knn.png", "other.json"):
        (tmp_path / "m" / name).write_text(f"the committed {name}")
    first_commit(tmp_path)
    for path in (tmp_path / "m").iterdir():
        path.unlink()
    return tmp_path / "m"


@pytest.mark.parametrize("error", [InputError("too few"), KeyboardInterrupt(), ZeroDivisionError(), SystemExit()])
def test_a_stage_that_fails_leaves_the_committed_metrics_and_of_several_processes_the_first_puts_them_back(
    argv, recorded, committed, monkeypatch, error
):
    """The others end early and well, by SystemExit, while the first one still writes."""
    if isinstance(error, SystemExit):
        monkeypatch.setenv("RANK", "1")

    def main(params, paths):
        raise error

    with pytest.raises(SystemExit if isinstance(error, InputError) else type(error)):
        run_stage(main, READS, [*PATHS, "pictures"], [*argv, "--pictures", str(committed / "knn.png")])
    own = {name: f"the committed {name}" for name in ("knn.json", "knn.csv", "knn.png")}  # and no other stage's
    found = {path.name: path.read_text() for path in committed.iterdir()}
    assert found == ({} if isinstance(error, SystemExit) else own)


@pytest.mark.parametrize(("rank", "waited"), [("0", []), ("1", [stage.FIRST_SPEAKS_SECONDS])])
def test_of_several_processes_the_first_has_time_to_say_a_mistake_before_torchrun_stops_it(
    argv, recorded, monkeypatch, rank, waited
):
    def main(params, paths):
        raise InputError("too few")

    slept = []
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(stage, "time", SimpleNamespace(sleep=slept.append))
    with pytest.raises(SystemExit, match=r"^ERROR: too few$"):
        run_stage(main, READS, PATHS, argv)
    assert slept == waited


def test_a_stage_that_fails_while_writing_keeps_what_it_wrote(argv, recorded, committed):
    with pytest.raises(ValueError, match="metrics are finite"):
        run_stage(lambda params, paths: Results({"k": 1}, [{"loss_nats": float("nan")}]), READS, PATHS, argv)
    assert read(committed.parent) == ({"k": 1}, "the committed knn.csv")


def test_settings_are_a_file_each_in_the_order_of_the_study_and_not_tracked(tmp_path, params, recorded):
    """The study is at scale demo, while the root's file is at scale tiny."""
    study = {"scale": "demo", "seeds": [3, 4], "scales": {"demo": {}}, "rows": {"MoCo v1": {}}}
    study |= {"defaults": DEFAULTS | {"sampler": "ball"}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))

    def main(study):
        params = study.variant("a row", study.row("rows", "MoCo v1"), 3)
        return {"rows/MoCo v1": {"scale": params.scale, "b": 1, "a": params.sampler}, "images": {}}

    folder = tmp_path / "settings"
    words = ["--params", str(params), "--study", str(tmp_path / "study.yaml"), "--settings", str(folder)]
    write_settings(main, Study, words)
    assert (folder / "rows/MoCo v1.json").read_text() == '{\n  "scale": "demo",\n  "b": 1,\n  "a": "ball"\n}\n'
    assert (folder / "images.json").read_text() == "{}\n"
    assert not recorded


def stages(*words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DVC_", "PYTHONPATH"))}
    command = [warm.folder() / "python", str(ROOT / "stages"), *words]
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, text=True)


def test_a_stage_runs_with_the_code_of_its_own_checkout_and_one_that_is_not_there_is_named(tmp_path):
    """Whatever annulus the environment would import, and from any folder."""
    (tmp_path / "annulus").mkdir()
    (tmp_path / "annulus/__init__.py").write_text("raise AssertionError('of another checkout')")
    words = ("check", "--checked=checked", f"--params={ROOT}/params.yaml")
    done = stages(*words, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "checked").exists()
    for words in ([], ["knnn"]):
        done = stages(*words, folder=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"ERROR: no stage {''.join(words)!r}; name one of algorithms/settings, ")


def test_mlflow_loads_beside_a_stage_that_is_tracked_alone(monkeypatch):
    runner, calls = script("stages/__main__.py"), []
    monkeypatch.setattr(tracking, "prepare", lambda: calls.append("prepare"))
    monkeypatch.setattr(runner.runpy, "run_path", lambda path, run_name: calls.append(Path(path).name))
    for name in ("knn", "check", "algorithms/settings"):
        monkeypatch.setattr(sys, "argv", ["stages", name, "--x"])
        runner.main()
    assert calls == ["prepare", "knn.py", "check.py", "settings.py"]


def test_names_and_lines_are_utf_8_in_a_stage_whatever_the_locale_says(tmp_path):
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages/__main__.py").write_bytes((ROOT / "stages/__main__.py").read_bytes())
    (tmp_path / "stages/show.py").write_text("from pathlib import Path\nprint(*Path().glob('?'))")
    (tmp_path / "猫").touch()
    command, ascii = [sys.executable, "stages", "show"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for asked, said in (({}, "猫"), ({"PYTHONIOENCODING": "latin-1"}, "\\u732b")):
        environment = os.environ | ascii | asked
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
        assert (done.stdout, done.stderr) == (f"{said}\n", "")
