"""Behaviour that all stages share: arguments, parameters, errors, results."""

import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import warm
import yaml
from by_path import ROOT, script
from stated import TREE
from test_studies_study import DEFAULTS

from annulus.device.threads import cores
from annulus.errors import InputError
from annulus.negatives.samplers import Ring
from annulus.running.checkpoint import Checkpoint, let_go
from annulus.running.code import digest
from annulus_lab.pipeline import stage
from annulus_lab.pipeline.edited import study_code
from annulus_lab.pipeline.provenance import stage_records
from annulus_lab.pipeline.stage import Results, run_resolved, run_stage
from annulus_lab.studies.shared.settings_files import write_settings
from annulus_lab.studies.shared.study import Study

# Handlers of a process in a terminal. A shell's background process ignores the first, nohup the last.
INTERRUPTS = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
READS = ["seeds", "samplers.${sampler}", "scales.${scale}.pretrain"]
PATHS = ["images", "metrics", "history"]


@pytest.fixture
def params(tmp_path):
    """The stated params.yaml at another scale and seed."""
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(TREE | {"seeds": [7], "scale": "tiny"}))
    return path


@pytest.fixture
def argv(tmp_path, params):
    paths = {"images": "images", "metrics": "m/knn.json", "history": "m/knn.csv", "params": params.name}
    return [word for name, value in paths.items() for word in (f"--{name}", str(tmp_path / value))]


@pytest.fixture
def settings(tmp_path, argv):
    """The arguments of a study's stage."""
    (tmp_path / "MoCo v1.json").write_text(json.dumps({"scale": "demo", "seeds": [3, 4], "run": {"knn": {"k": 5}}}))
    return [*argv[:-2], "--settings", str(tmp_path / "MoCo v1.json")]


def read(folder):
    return json.loads((folder / "m/knn.json").read_text()), (folder / "m/knn.csv").read_text()


def test_a_stage_gets_what_it_reads_and_its_results_are_written(tmp_path, argv, settings):
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

    (params, images), study_call = seen
    assert (params.keys(), params["seeds"], images) == ({*READS}, [7], tmp_path / "images")
    assert isinstance(params["samplers.${sampler}"], Ring)
    assert study_call == ({"scale": "demo", "seeds": [3, 4], "run": {"knn": {"k": 5}}}, tmp_path / "images")


def test_help_says_what_a_stage_is_and_an_argument_is_given_by_its_whole_name(argv, capsys):
    def main(params, paths):
        """Stands for a stage."""
        return Results({})

    refused = {"required: --images": argv[2:], "required: --history": ["--hist", *argv[1:2], *argv[:4]]}
    for text, arguments in {"Behaviour that all stages share": ["--help"], **refused}.items():
        with pytest.raises(SystemExit):
            run_stage(main, READS, PATHS, arguments)
        assert text in "".join(capsys.readouterr())


def test_what_a_stage_says_are_plain_lines_on_stderr(argv, capsys, monkeypatch):
    monkeypatch.setattr(logging.root, "handlers", [])
    monkeypatch.setattr(logging.root, "level", logging.WARNING)

    def main(params, paths):
        """Stands for a stage."""
        logging.getLogger("annulus").info("epoch 1 of 3")
        return Results({})

    run_stage(main, READS, PATHS, argv)
    assert capsys.readouterr() == ("", "epoch 1 of 3\n")


def test_a_stage_with_seeds_writes_each(tmp_path, argv):
    seeds = {seed: {"top1_percent": 40.0 + seed, "k": 20, "worst_class": f"class {seed}"} for seed in (0, 3)}
    histories = {seed: [{"epoch": 1, "loss_nats": 0.5 * seed}] for seed in seeds}
    run_stage(lambda params, paths: Results.by_seed(seeds, histories), READS, PATHS, argv)
    expected = {str(seed): numbers for seed, numbers in seeds.items()}
    assert read(tmp_path) == (expected, "seed,epoch,loss_nats\n0,1,0.0\n3,1,1.5\n")


def test_a_stage_writes_what_it_names_alone_and_of_no_epochs_the_columns_of_a_history(tmp_path, argv):
    run_stage(lambda params, paths: Results({"k": 1}, [{"epoch": 1}]), READS, PATHS[:1], [*argv[:2], *argv[-2:]])
    assert not (tmp_path / "m").exists()
    run_stage(lambda params, paths: Results({"k": 1}), READS, PATHS, argv)
    assert read(tmp_path) == ({"k": 1}, "seed,epoch\n")


def test_a_stage_that_ends_removes_the_states_that_those_before_it_let_go(argv, empty_checkout):
    """The stage's own state stays, because DVC may fail to keep its outputs."""
    before, own = Checkpoint("before", {"k": 1}), Checkpoint("own", {"k": 2})
    for checkpoint in (before, own):
        with checkpoint:
            checkpoint.save({"step": 1})
    let_go([before])
    run_stage(lambda params, paths: Results({"k": 1}, written=lambda: let_go([own])), READS, PATHS, argv)
    assert (before.state.exists(), own.state.exists()) == (False, True)


def test_a_stage_that_dvc_runs_says_where_and_which_files_are_its_own(tmp_path, argv, settings, monkeypatch):
    monkeypatch.setenv("DVC_STAGE", "knn")
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    def failing(params, paths):
        raise InputError("images: 3 are too few; take more")

    with pytest.raises(SystemExit, match=r"^ERROR: images: 3 are too few; take more$") as stop:
        run_stage(failing, READS, PATHS, argv)
    assert stop.value.__cause__ is None
    assert not (tmp_path / "m").exists()
    assert stage_records(tmp_path) == []
    for start in (
        lambda: run_stage(lambda params, paths: Results({"k": 1}, [{"epoch": 1}]), READS, PATHS, argv),
        lambda: run_resolved(lambda settings, paths: Results({"k": 2}, [{"epoch": 1}]), PATHS, settings),
    ):
        start()
        (run,) = stage_records(tmp_path)
        assert (run.stage, set(run.files)) == ("knn", {"m/knn.json", "m/knn.csv"})
        assert run.matches(tmp_path)


@pytest.mark.parametrize(
    ("folder", "advice"), [(".", "\nWhat `-S` set stays in params.yaml: .*`make restore`"), (".dvc/tmp/exps/tmp1", "")]
)
def test_a_mistake_in_dvc_exp_run_says_that_its_values_stay_but_a_queued_one_s_do_not(
    tmp_path, argv, monkeypatch, folder, advice
):
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "8ce8c22")
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)

    def failing(params, paths):
        raise InputError("images: 3 are too few")

    files = [Path(argv[argv.index("--params") + 1]), Path("metrics/main/knn.json"), Path("metrics/summary.json")]
    files[1].parent.mkdir(parents=True)
    for metrics in files[1:]:
        metrics.touch()
    before = [file.stat().st_mtime for file in files]
    with pytest.raises(SystemExit, match=rf"^ERROR: images: 3 are too few{advice}$"):
        run_stage(failing, READS, PATHS, argv)
    for file, modified in zip(files, before, strict=True):
        assert (file.stat().st_mtime < modified) == bool(advice), "so that git looks at it again"


def test_resume_state_is_forgotten_only_when_the_files_are_there(tmp_path, argv):
    seen = []
    results = Results({"k": 1}, [{"epoch": 1}], written=lambda: seen.append((tmp_path / "m/knn.csv").exists()))
    run_stage(lambda params, paths: results, READS, PATHS, argv)
    assert seen == [True]


@pytest.fixture
def started(tmp_path, monkeypatch):
    """Starts a stage in place of kNN, as DVC does."""
    runner = script("stages/__main__.py")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["stages", "knn"])
    handlers = {sign: signal.getsignal(sign) for sign in INTERRUPTS}

    def start(stage):
        monkeypatch.setattr(runner.runpy, "run_path", lambda path, run_name: stage())
        monkeypatch.setattr(runner.os, "_exit", lambda status: sys.exit(status))
        for sign, handler in INTERRUPTS.items():
            signal.signal(sign, handler)
        try:
            runner.main()
        finally:
            signal.alarm(0)
            for sign, handler in handlers.items():
                signal.signal(sign, handler)

    return start


@pytest.mark.parametrize("error", [SystemExit("ERROR: too few"), ZeroDivisionError(), ImportError()])
def test_a_stage_that_fails_ends_with_its_own_error(started, error):
    def fail():
        raise error

    with pytest.raises(type(error)):
        started(fail)


@pytest.mark.parametrize("sign", INTERRUPTS)
@pytest.mark.parametrize("then", ["fails", "goes on"])
def test_ctrl_c_or_kill_in_a_stage_is_one_sentence_whatever_an_import_makes_of_it(started, capsys, then, sign):
    def importing():
        try:
            signal.raise_signal(sign)
        except KeyboardInterrupt:
            if then == "fails":
                raise ImportError("numpy's C extensions failed") from None
            signal.setitimer(signal.ITIMER_REAL, 0.01)
            time.sleep(10)

    with pytest.raises(SystemExit) as ended:
        started(importing)
    assert ended.value.code == 130
    assert capsys.readouterr().err == "ERROR: interrupted; the same command continues from here\n"


STAGE = """import os, signal, time
from annulus.running.workers import map_processes

from annulus_lab.pipeline.stage import Results, run_stage

def compute(item):
    os.kill(os.getpid(), signal.SIGKILL) if item == "killed" else time.sleep(60)

def main(params, paths):
    print("computing", flush=True)
    list(map_processes(compute, [os.environ["ITEM"]] * 2))

run_stage(main, [], ["metrics"])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("item", "status", "sentence"),
    [
        ("killed", 1, "ERROR: a process that computed was killed, mostly because memory ran out; free some, or "),
        (signal.SIGINT, 130, "ERROR: interrupted; the same command continues from here"),
        (signal.SIGTERM, 130, "ERROR: interrupted; the same command continues from here"),
        (signal.SIGHUP, 130, "ERROR: interrupted; the same command continues from here"),
    ],
)
def test_a_killed_worker_and_ctrl_c_while_workers_compute_are_one_sentence(tmp_path, params, item, status, sentence):
    (tmp_path / "stages").mkdir()
    (tmp_path / "src").symlink_to(ROOT / "src")
    (tmp_path / "stages/computing.py").write_text(STAGE)
    shutil.copy(ROOT / "stages/__main__.py", tmp_path / "stages")
    process = subprocess.Popen(
        [sys.executable, "stages", "computing", "--metrics", "m.json"],
        **{"cwd": tmp_path, "env": os.environ | {"ITEM": str(item)}, "stdout": -1, "stderr": -1, "text": True},
        start_new_session=True,
        preexec_fn=lambda: [signal.signal(sign, signal.SIG_DFL) for sign in INTERRUPTS],
    )
    assert process.stdout.readline() == "computing\n"
    if item != "killed":
        while cores() > 1 and len(child_processes(process)) < 2:
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, item)
    _, error = process.communicate(timeout=50)
    assert process.returncode == status
    assert error.startswith(sentence)
    assert error.count("\n") == 1, error


def child_processes(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()


@pytest.mark.parametrize(("rank", "waited"), [("0", []), ("1", [stage.FIRST_SPEAKS_SECONDS])])
def test_of_several_processes_the_first_has_time_to_say_a_mistake_before_torchrun_stops_it(
    argv, monkeypatch, rank, waited
):
    def main(params, paths):
        raise InputError("too few")

    slept = []
    monkeypatch.setenv("RANK", rank)
    monkeypatch.setattr(stage, "time", SimpleNamespace(sleep=slept.append))
    with pytest.raises(SystemExit, match=r"^ERROR: too few$"):
        run_stage(main, READS, PATHS, argv)
    assert slept == waited


def test_settings_are_a_file_each_in_the_order_of_the_study(tmp_path, params):
    """The study is at scale demo, while the root's file is at scale tiny."""
    study = {"scale": "demo", "seeds": [3, 4], "scales": {"demo": {}}, "rows": {"MoCo v1": {}}}
    study |= {"defaults": DEFAULTS | {"sampler": "ball"}}
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(study))

    def main(study):
        params = study.variant("a row", study.row("rows", "MoCo v1"), 3)
        return {"rows/MoCo v1": {"scale": params.scale, "b": 1, "a": params.sampler}, "images": {}}

    folder = tmp_path / "settings"
    words = ["--params", str(params), "--study", str(tmp_path / "study.yaml"), "--settings", str(folder)]
    write_settings(main, Study, {"rows": "algorithms/train", "images": "study_images"}, words)
    text = (folder / "rows/MoCo v1.json").read_text()
    assert text.startswith('{\n  "scale": "demo",\n  "b": 1,\n  "a": "ball",\n  "script": "algorithms/train",\n')
    digests = {name: json.loads((folder / f"{name}.json").read_text())["code"] for name in ("rows/MoCo v1", "images")}
    assert digests["images"] == digest(ROOT / "stages/study_images.py") != digests["rows/MoCo v1"]


def test_a_stage_whose_code_was_edited_since_its_settings_were_written_is_refused(settings, tmp_path):
    def main(params, paths):
        return Results({"top1_percent": 1.0})

    file = tmp_path / "MoCo v1.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps(content | {"code": study_code(Path(__file__), content)}))
    run_resolved(main, PATHS, settings)
    file.write_text(json.dumps(content | {"code": 32 * "0"}))
    with pytest.raises(
        SystemExit, match=r"test_pipeline_stage\.py, or code that it imports, was edited since .* again$"
    ):
        run_resolved(main, PATHS, settings)


def stages(*words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DVC_", "PYTHONPATH"))}
    command = [warm.folder() / "python", str(ROOT / "stages"), *words]
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, text=True)


def test_a_file_of_the_library_that_a_queued_experiment_lacks_is_named_with_a_way_out(tmp_path):
    """DVC copies files that git tracks. A new sampler's file is missing, but the package of samplers imports it."""
    for part in ("stages", "src"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    choices = tmp_path / "src/annulus/negatives/__init__.py"
    choices.write_text(choices.read_text() + "from annulus.negatives.own_sampler import Own\n")
    command = [warm.folder() / "python", "stages", "check", "--code", "code", "--params", f"{ROOT}/params.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "ERROR: No module named 'annulus.negatives.own_sampler'; `git add` its file: a queued experiment has only "
        "files that git tracks\n"
    )


def test_a_stage_runs_with_the_code_of_its_own_checkout_and_one_that_is_not_there_is_named(tmp_path):
    """The environment would import another annulus, and the current folder is another one."""
    (tmp_path / "annulus").mkdir()
    (tmp_path / "annulus/__init__.py").write_text("raise AssertionError('of another checkout')")
    shutil.copy(ROOT / "dvc.yaml", tmp_path)  # the check writes a digest for each of its stages
    words = ("check", "--code=code", f"--params={ROOT}/params.yaml")
    done = stages(*words, folder=tmp_path, PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "code").exists()
    for words in ([], ["knnn"]):
        done = stages(*words, folder=tmp_path)
        assert done.returncode == 1
        assert done.stderr.startswith(f"ERROR: no stage {''.join(words)!r}; name one of algorithms/settings, ")


def test_names_and_lines_are_utf_8_in_a_stage_whatever_the_locale_says(tmp_path):
    (tmp_path / "stages").mkdir()
    (tmp_path / "stages/__main__.py").write_bytes((ROOT / "stages/__main__.py").read_bytes())
    (tmp_path / "stages/show.py").write_text("from pathlib import Path\nprint(*Path().glob('?'))")
    (tmp_path / "猫").touch()
    # Stand-ins for the program's imports, to save the seconds of torch: the test checks the code around them.
    nothing = "from contextlib import nullcontext as "
    for name, content in {
        "torch/__init__.py": "",
        "annulus/__init__.py": "",
        "annulus/running/__init__.py": "",
        "annulus/running/imports.py": f"{nothing}uncollected",
        "annulus_lab/__init__.py": "",
        "annulus_lab/pipeline/__init__.py": "",
        "annulus_lab/pipeline/second_run.py": f"{nothing}refuse_second_run",
    }.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(content)
    command, ascii = [sys.executable, "stages", "show"], {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
    for variables, text in (({}, "猫"), ({"PYTHONIOENCODING": "latin-1"}, "\\u732b")):
        environment = os.environ | ascii | variables
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, encoding="utf-8")
        assert (done.stdout, done.stderr) == (f"{text}\n", "")
