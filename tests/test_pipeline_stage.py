"""What every stage does the same way: its arguments, its parameters, its errors, its results."""

import hashlib
import json
import logging
import os
import resource
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
from dvc.utils.serialize import dump_yaml
from report_root import first_commit
from stated import TREE
from test_studies_study import DEFAULTS

from annulus.device.threads import cores
from annulus.errors import InputError
from annulus.negatives.samplers import Ring
from annulus.pipeline import stage
from annulus.pipeline.provenance import runs
from annulus.pipeline.stage import Results, run_resolved, run_stage
from annulus.running.checkpoint import Checkpoint, let_go
from annulus.studies.settings_files import write_settings
from annulus.studies.study import Study

# As a terminal's process has them: a shell's background ignores the first, nohup the last.
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

    (params, images), of_study = seen
    assert (params.keys(), params["seeds"], images) == ({*READS}, [7], tmp_path / "images")
    assert isinstance(params["samplers.${sampler}"], Ring)
    assert of_study == ({"scale": "demo", "seeds": [3, 4], "run": {"knn": {"k": 5}}}, tmp_path / "images")


def test_help_says_what_a_stage_is_and_an_argument_is_given_by_its_whole_name(argv, capsys):
    def main(params, paths):
        """Stands for a stage."""
        return Results({})

    refused = {"required: --images": argv[2:], "required: --history": ["--hist", *argv[1:2], *argv[:4]]}
    for said, arguments in {"What every stage does the same way": ["--help"], **refused}.items():
        with pytest.raises(SystemExit):
            run_stage(main, READS, PATHS, arguments)
        assert said in "".join(capsys.readouterr())


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
    run_stage(lambda params, paths: Results.of_seeds(seeds, histories), READS, PATHS, argv)
    found = {str(seed): numbers for seed, numbers in seeds.items()}
    assert read(tmp_path) == (found, "seed,epoch,loss_nats\n0,1,0.0\n3,1,1.5\n")


def test_a_stage_writes_what_it_names_alone_and_of_no_epochs_the_columns_of_a_history(tmp_path, argv):
    run_stage(lambda params, paths: Results({"k": 1}, [{"epoch": 1}]), READS, PATHS[:1], [*argv[:2], *argv[-2:]])
    assert not (tmp_path / "m").exists()
    run_stage(lambda params, paths: Results({"k": 1}), READS, PATHS, argv)
    assert read(tmp_path) == ({"k": 1}, "seed,epoch\n")


def test_a_stage_that_ends_removes_the_states_that_those_before_it_let_go(argv, empty_checkout):
    """A stage's own stays: DVC may fail to keep its outputs."""
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
    assert runs(tmp_path) == []
    for start in (
        lambda: run_stage(lambda params, paths: Results({"k": 1}, [{"epoch": 1}]), READS, PATHS, argv),
        lambda: run_resolved(lambda settings, paths: Results({"k": 2}, [{"epoch": 1}]), PATHS, settings),
    ):
        start()
        (run,) = runs(tmp_path)
        assert (run.stage, set(run.files)) == ("knn", {"m/knn.json", "m/knn.csv"})
        assert run.matches(tmp_path)


@pytest.mark.parametrize(
    ("folder", "said"), [(".", "\nWhat `-S` set stays in params.yaml: .*`make restore`"), (".dvc/tmp/exps/tmp1", "")]
)
def test_a_mistake_in_dvc_exp_run_says_that_its_values_stay_but_a_queued_one_s_do_not(
    tmp_path, argv, monkeypatch, folder, said
):
    monkeypatch.setenv("DVC_EXP_BASELINE_REV", "8ce8c22")
    (tmp_path / folder).mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(tmp_path / folder)

    def failing(params, paths):
        raise InputError("images: 3 are too few")

    params = Path(argv[argv.index("--params") + 1])
    before = params.stat().st_mtime
    with pytest.raises(SystemExit, match=rf"^ERROR: images: 3 are too few{said}$"):
        run_stage(failing, READS, PATHS, argv)
    assert (params.stat().st_mtime < before) == bool(said)  # so that git looks at it again


def test_resume_state_is_forgotten_only_when_the_files_are_there(tmp_path, argv):
    seen = []
    results = Results({"k": 1}, [{"epoch": 1}], written=lambda: seen.append((tmp_path / "m/knn.csv").exists()))
    run_stage(lambda params, paths: results, READS, PATHS, argv)
    assert seen == [True]


@pytest.fixture
def committed(tmp_path, monkeypatch):
    """A checkout whose committed metrics DVC has deleted, as it does before it starts a stage.

    A user has edited given.json since, and has committed edited.json, which DVC has with other content.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DVC_STAGE", "knn")
    (tmp_path / "m").mkdir()
    for name in ("knn.json", "knn.csv", "knn.png", "given.json", "edited.json", "other.json"):
        (tmp_path / "m" / name).write_text(f"the committed {name}")
    outs = {path.name: hashlib.md5(path.read_bytes()).hexdigest() for path in (tmp_path / "m").iterdir()}
    lines = [f"    - path: m/{name}\n      hash: md5\n      md5: {md5}\n" for name, md5 in outs.items()]
    stage = f"  knn:\n    cmd: python stages knn\n    outs:\n{''.join(lines)}"
    (tmp_path / "dvc.lock").write_text(f"schema: '2.0'\nstages:\n{stage}".replace(outs["edited.json"], 32 * "0"))
    first_commit(tmp_path)
    for path in (tmp_path / "m").iterdir():
        path.unlink()
    (tmp_path / "m/given.json").write_text("a user's edit")
    return tmp_path / "m"


@pytest.fixture
def started(committed, monkeypatch):
    """Starts a stage in place of kNN, as DVC does."""
    runner = script("stages/__main__.py")
    words = ["--metrics", "m/knn.json", "--history", "m/knn.csv", "--pictures", "m/knn.png", "--given", "m/given.json"]
    words += ["--edited", "m/edited.json", "--new", "m/new.json"]
    monkeypatch.setattr(sys, "argv", ["stages", "knn", *words])
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


def failing(error):
    def stage():
        Path("m/knn.csv").write_text("written", encoding="utf-8")
        Path("m/given.json").unlink()
        raise error

    return stage


@pytest.mark.parametrize("changed", [None, ("RANK", "1"), ("DVC_STAGE", None)])
@pytest.mark.parametrize("error", [SystemExit("ERROR: too few"), ZeroDivisionError(), ImportError()])
def test_a_stage_that_fails_gets_back_what_dvc_deleted_and_nothing_else(
    started, committed, monkeypatch, changed, error
):
    """Of several processes the first puts it back: the others end early and well, while it still writes."""
    if changed:
        name, value = changed
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    with pytest.raises(type(error)):
        started(failing(error))
    back = {} if changed else {name: f"the committed {name}" for name in ("knn.json", "knn.png")}
    assert {path.name: path.read_text() for path in committed.iterdir()} == {"knn.csv": "written"} | back


def test_what_a_user_has_put_in_the_place_of_a_file_stays(started, committed):
    """A link to nowhere is no file, but somebody's."""
    (committed / "knn.json").symlink_to("nowhere")
    with pytest.raises(ZeroDivisionError):
        started(failing(ZeroDivisionError()))
    assert (committed / "knn.json").readlink() == Path("nowhere")
    assert (committed / "knn.png").read_text() == "the committed knn.png"


def test_on_a_full_disk_no_half_of_a_file_is_put_back(committed):
    runner = script("stages/__main__.py")
    handlers, limits = {sign: signal.getsignal(sign) for sign in INTERRUPTS}, resource.getrlimit(resource.RLIMIT_FSIZE)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1, limits[1]))
        runner.put_back(["m/knn.json"])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        for sign, handler in handlers.items():
            signal.signal(sign, handler)
    assert not (committed / "knn.json").exists()


def test_a_stage_s_outputs_are_read_from_a_lock_as_dvc_writes_it(tmp_path, monkeypatch):
    """Where yaml is missing a stage fails, and gets its files back all the same."""
    runner = script("stages/__main__.py")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stages/mine").mkdir(parents=True)
    md5, paths = "0123456789abcdef" * 2, (f"m/{'a long name, ' * 12}.json", "m/[1] off.json", "m/ö.csv")
    outs = [{"path": path, "hash": "md5", "md5": md5, "size": 3} for path in paths]
    stage = {"cmd": "python", "deps": [{"path": "m/of another stage.json", "md5": 32 * "f"}], "outs": outs}
    dump_yaml(
        tmp_path / "stages/mine/dvc.lock", {"schema": "2.0", "stages": {"train@a + [b]": stage, "train": {"cmd": "ls"}}}
    )
    assert runner.outputs("train@a + [b]") == dict.fromkeys(paths, md5)


@pytest.mark.slow
def test_a_stage_s_outputs_are_read_from_the_locks_of_this_repository(monkeypatch):
    runner = script("stages/__main__.py")
    monkeypatch.chdir(ROOT)
    for lock in map(Path, ("dvc.lock", "stages/estimators/dvc.lock", "stages/cifar10_distillation/dvc.lock")):
        stages = yaml.load(lock.read_text(encoding="utf-8"), yaml.CSafeLoader)["stages"]
        name = max(stages, key=lambda name: len(stages[name].get("outs", ())))
        locked = {out["path"]: out["md5"] for out in stages[name]["outs"]}
        assert locked.items() <= runner.outputs(name).items(), name


@pytest.mark.parametrize("sign", INTERRUPTS)
@pytest.mark.parametrize("then", ["fails", "goes on"])
def test_ctrl_c_or_kill_in_a_stage_is_one_sentence_whatever_an_import_makes_of_it(
    started, committed, capsys, then, sign
):
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
    assert capsys.readouterr().err == "ERROR: interrupted; the same command goes on where this one stood\n"
    assert (committed / "knn.json").read_text() == "the committed knn.json"


STAGE = """import os, signal, time
from annulus.running.workers import map_processes

from annulus.pipeline.stage import Results, run_stage

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
        (signal.SIGINT, 130, "ERROR: interrupted; the same command goes on where this one stood"),
        (signal.SIGTERM, 130, "ERROR: interrupted; the same command goes on where this one stood"),
        (signal.SIGHUP, 130, "ERROR: interrupted; the same command goes on where this one stood"),
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
        while cores() > 1 and len(workers_of(process)) < 2:
            assert process.poll() is None
            time.sleep(0.02)
        os.killpg(process.pid, item)
    _, error = process.communicate(timeout=50)
    assert process.returncode == status
    assert error.startswith(sentence)
    assert error.count("\n") == 1, error


def workers_of(process):
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
    write_settings(main, Study, words)
    assert (folder / "rows/MoCo v1.json").read_text() == '{\n  "scale": "demo",\n  "b": 1,\n  "a": "ball"\n}\n'
    assert (folder / "images.json").read_text() == "{}\n"


def stages(*words: str, folder: Path, **environment: str) -> subprocess.CompletedProcess:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DVC_", "PYTHONPATH"))}
    command = [warm.folder() / "python", str(ROOT / "stages"), *words]
    return subprocess.run(command, cwd=folder, env=inherited | environment, capture_output=True, text=True)


def test_a_file_of_the_library_that_a_queued_experiment_lacks_is_named_with_a_way_out(tmp_path):
    """DVC copies what git knows: not a new sampler's file, which the package of samplers imports already."""
    for part in ("stages", "src"):
        shutil.copytree(ROOT / part, tmp_path / part, ignore=shutil.ignore_patterns("__pycache__"))
    choices = tmp_path / "src/annulus/negatives/__init__.py"
    choices.write_text(choices.read_text() + "from annulus.negatives.own_sampler import Own\n")
    command = [warm.folder() / "python", "stages", "check", "--checked", "checked", "--params", f"{ROOT}/params.yaml"]
    done = subprocess.run(command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == (
        "ERROR: No module named 'annulus.negatives.own_sampler'; `git add` its file: a queued experiment has only "
        "those that git knows\n"
    )


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
