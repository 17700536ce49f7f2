"""Sweeps: the same bytes as without a sweep, and each run once after any kill; real workers, on runs of seconds."""

import argparse
import functools
import importlib
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from multiprocessing import get_context
from pathlib import Path
from unittest import mock

import pytest
import warm
from checkout import Checkout, ran
from settings import CPU, stripes
from test_studies_runs import diverging, variant

pytest.importorskip("submitit", reason="submitit is not installed; it comes with `make install`")

from annulus.errors import InputError
from annulus.files.images import save_images
from annulus.files.results import write_text
from annulus.running.checkpoint import hash_images
from annulus_lab.studies.shared.runs import TrialCode, Trials, load_splits
from annulus_lab.studies.shared.store import CachedRun
from annulus_lab.sweep import command, places, study_trials
from annulus_lab.sweep.command import _parser, main
from annulus_lab.sweep.places import Local, Slurm
from annulus_lab.sweep.watch import Watch
from annulus_lab.sweep.worker import StudyRun, Worker

pytestmark = pytest.mark.slow

ROWS = ["IR-nce", "MoCo"]
SOURCE = Path(__file__).resolve().parents[1] / "src"


# --- a study, as a user sweeps it ---------------------------------------------------------------------


def two_rows(content: dict) -> None:
    methods = {row: {"row": row, "top1_percent": 80.0} for row in ROWS}
    content |= {"scale": "tiny", "seeds": [0, 1], "pairs": {"MoCo": ["IR-nce"]}}
    content["rows"] = {row: content["rows"][row] for row in ROWS}
    content["tables"] = {"a table": {"base": "IR-nce", "methods": methods}}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("annulus"), "algorithms", "cifar10", "estimators")
    checkout.cut("algorithms", two_rows)
    checkout.commit()
    return checkout


# A sweep whose workers start at once. submitit calls a job by the process that starts the worker, the usual Python.
SWEEP = f"""
import functools, submitit, sys, types
submitit.local.local.sys = types.SimpleNamespace(executable={sys.executable!r})
submitit.LocalExecutor = functools.partial(submitit.LocalExecutor, python=sys.executable)
from annulus_lab.sweep.command import main
main()
"""


def begin_sweep(checkout: Checkout, *words: str) -> subprocess.Popen:
    command = checkout.command(PYTHONPATH=os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")]))
    command["args"] = [command["args"][0], *words]
    return subprocess.Popen(**command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def test_two_sweeps_at_once_train_each_run_once_and_dvc_repro_trains_none(checkout, monkeypatch):
    sweeps = [begin_sweep(checkout, "-c", SWEEP, "algorithms", "--workers", "1") for _ in range(2)]
    outputs = [sweep.communicate()[0] for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0, 0], outputs
    done = re.findall(r"^(.+, seed \d): done in \d+ s", "\n".join(outputs), re.MULTILINE)
    assert sorted(done) == [f"{row}, seed {seed}" for row in ROWS for seed in (0, 1)]
    monkeypatch.syspath_prepend(Path(__file__).parent / "benchmarks")
    pattern = importlib.import_module("bench_sweep").SUMMARY  # the benchmark reads its numbers by it
    assert any(pattern.search(output) for output in outputs)
    assert len(list(checkout.folder.glob(".annulus/outcomes/*.json"))) == 4
    assert not list(checkout.folder.glob(".annulus/checkpoints/trials/*"))
    assert [path.name for path in checkout.folder.glob(".annulus/sweeps/*")] == ["lock"]

    def metrics() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in checkout.project("algorithms").glob("metrics/rows/*.json")}

    output = checkout.dvc("repro", study="algorithms")
    assert set(ran(output)) == {"train@IR-nce", "train@MoCo", "table"}
    assert "epoch 1/1" not in output
    swept = metrics()
    assert len(swept) == 2
    for path in checkout.folder.glob(".annulus/outcomes/*.json"):
        path.unlink()
    rows = [f"train@{row}" for row in ROWS]
    assert checkout.dvc("repro", "--force", "--single-item", *rows, study="algorithms").count("epoch 1/1") == 4
    assert metrics() == swept

    again = begin_sweep(checkout, "-m", "annulus", "sweep", "algorithms")
    assert "2 of 2 rows: DVC has their results, nothing to do" in again.communicate()[0]
    assert again.returncode == 0


def test_the_runs_of_a_row_that_dvc_repro_trains_are_shared(checkout, monkeypatch):
    """The file is DVC's own note of the paths that a `dvc repro` reads and writes while its stage trains."""
    monkeypatch.chdir(checkout.folder)
    checkout.dvc("repro", "images", study="algorithms")
    folder, other = checkout.project("algorithms"), {"pid": os.getpid(), "cmd": "dvc repro"}
    rwlock = folder / ".dvc/tmp/rwlock"
    read = [f"{folder}/data/{path}" for path in ("images", "settings/rows/MoCo.json")]
    note = {"read": {path: [other] for path in read}, "write": {f"{folder}/metrics/rows/MoCo.json": other}}
    rwlock.write_text(json.dumps(note))
    try:
        assert "is busy, it is being blocked by" in checkout.dvc("repro", study="algorithms", status=255)
        trial_lists = [study_trials.read_trials("algorithms", rows) for rows in ([], ["MoCo"])]
        rwlock.write_text(json.dumps({"read": {}, "write": {f"{folder}/data/images": other}}))
        with pytest.raises(InputError, match=r"^`cd stages/algorithms && dvc repro images` fails; mend what it says"):
            study_trials.read_trials("algorithms", [])
    finally:
        rwlock.unlink()
    runs = [f"{row}, seed {seed}" for row in ROWS for seed in (0, 1)]
    assert [[trial.name for trial in trials] for trials in trial_lists] == [runs, runs[2:]]


def test_a_sweep_whose_runs_failed_tells_them_and_keeps_its_logs_and_one_that_is_stopped_says_how_it_goes_on(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    before, ends = signal.getsignal(signal.SIGTERM), iter([["MoCo, seed 1: the loss is nan"], [], None])

    def swept(arguments, folder):
        folder.mkdir(parents=True)
        if (failed := next(ends)) is None:
            os.kill(os.getpid(), signal.SIGTERM)  # as systemd and Slurm end a process
            time.sleep(60)
        return failed

    monkeypatch.setattr(command, "sweep", swept)
    try:
        with pytest.raises(SystemExit, match=r"^ERROR: .*; failed:\nMoCo, seed 1: the loss is nan\n\(.*/sweeps/2.*\)$"):
            main(["algorithms"])
        (kept,) = Path(".annulus/sweeps").iterdir()
        kept.rmdir()
        main(["algorithms"])
        assert not list(Path(".annulus/sweeps").iterdir())
        with pytest.raises(SystemExit, match=r"^stopped; the same command goes on where the runs stand$"):
            main(["algorithms"])
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_cannot_be_is_refused_in_a_sentence_before_anything_runs(checkout, monkeypatch):
    monkeypatch.chdir(checkout.folder)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    study = "algorithms"
    for gpus, words, sentence in (
        (
            0,
            "algorithm",
            r"there is no study 'algorithm'; did you mean 'algorithms'\? \(studies: .*cifar1",
        ),
        (0, "estimators", "no stage of estimators trains runs .*; `make study STUDY=estimators` runs it"),
        (0, f"{study} Moco", rf"{study} has no row 'Moco'; did you mean 'MoCo'\? \(rows: IR-nce, MoCo\)"),
        (0, f"{study} MoCo --workers 2 Moco", f"{study} has no row 'Moco'"),  # rows may stand after the options
        (0, f"{study} --workers 0", "--workers 0: name a number of processes, 1 or more"),
        (0, f"{study} --gpus-per-worker 2", "--gpus-per-worker 2: a run uses one GPU at most; name 1, or a"),
        (0, f"{study} --gpus-per-worker 0", "--gpus-per-worker 0: a run uses one GPU at most; name 1, or a"),
        (0, f"{study} --gpus-per-worker 1", "--gpus-per-worker 1: torch finds no GPU here; leave it out"),
        (0, f"{study} --slurm time=3", "--slurm time= is for --executor slurm; name that too, or leave it"),
        (
            2,
            f"{study} --workers 5 --gpus-per-worker 0.5",
            ".*5, each with 0.5 of a GPU, are too many for 2 GPUs; take at",
        ),
    ):
        monkeypatch.setattr(places.torch.cuda, "device_count", lambda gpus=gpus: gpus)
        with pytest.raises(InputError, match=f"^{sentence}"):
            main(words.split())
    assert not list(Path(".annulus").glob("sweeps/2*"))


def test_a_sweep_s_lock_that_cannot_be_had_is_a_sentence(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(InputError, match=r"^cannot write .*/lock: File exists; free some space"),
        study_trials.alone(tmp_path / "file" / "lock"),
    ):
        pass


def test_a_folder_for_logs_that_cannot_be_made_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    Path(".annulus").touch()
    with pytest.raises(InputError, match=r"^cannot write .*/\.annulus/sweeps/2.*: Not a directory; free some space"):
        main(["algorithms"])


# --- on Slurm, without one ----------------------------------------------------------------------------


@pytest.fixture
def commands(tmp_path, monkeypatch) -> Path:
    """Stand-ins for Slurm's commands; the file `submitted` keeps the submitted script."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sbatch", "srun", "scancel", "sacct"):
        line = ":" if name == "sacct" else f'cp "$1" "{tmp_path}/submitted" && echo Submitted batch job 7'
        (folder / name).write_text(f"#!/bin/sh\n{line}\n")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    return folder


def test_without_slurm_or_with_an_unknown_setting_nothing_is_submitted(commands, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"--slurm partitoin=: unknown; did you mean 'partition'\? \(known: account, "):
        Slurm(tmp_path, 2, None, {"partitoin": "gpu"})
    with pytest.raises(InputError, match=r"--slurm additional_parameters=a: submitit refuses it \("):
        Slurm(tmp_path, 2, None, {"additional_parameters": "a"})
    with pytest.raises(InputError, match=r"--slurm time=4:00:00: not a number of minutes; write time=240"):
        Slurm(tmp_path, 2, None, {"time": "4:00:00"})
    with pytest.raises(InputError, match=r"--slurm use_srun=no: submitit refuses it \(use_srun is true or false\)"):
        Slurm(tmp_path, 2, None, {"use_srun": "no"})
    with pytest.raises(InputError, match=r"--slurm srun_args='-v: submitit refuses it \(No closing quotation\)"):
        Slurm(tmp_path, 2, None, {"srun_args": "'-v"})
    (commands / "sbatch").write_text("#!/bin/sh\necho sbatch: error: no partition gpu >&2; exit 1\n")
    with pytest.raises(InputError, match=r"Slurm refuses the workers: .*no partition gpu"):
        Slurm(tmp_path, 2, None, {}).start(Worker(tmp_path, [], None), [0, 1])
    with pytest.raises(InputError, match=r"no partition gpu; 2 jobs at a time are too many .* --workers names fewer$"):
        Slurm(tmp_path, 2, None, {}).start(Worker(tmp_path, [], None), [0, 1])
    (commands / "sacct").write_text("#!/bin/sh\nprintf 'accounting \\377 is disabled' >&2; exit 1\n")
    with pytest.raises(InputError, match=r"sacct fails \(accounting . is disabled\), and without it a killed worker"):
        Slurm(tmp_path, 2, None, {})
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match=r"--executor slurm: no sbatch and no srun .* here; run the sweep where jobs"):
        Slurm(tmp_path, 2, None, {})


def test_workers_are_an_array_of_jobs_that_share_a_gpu_and_are_told_before_their_time_is_over(commands, tmp_path):
    lists = {"setup": "module load cuda", "srun_args": "--mpi=none --quiet"}
    slurm = Slurm(tmp_path, None, 0.5, {"partition": "gpu", "time": 90} | lists)
    assert (slurm.tasks, slurm.slots(trials=7)) == (2, 4)
    jobs = slurm.start(Worker(tmp_path, [], None), range(4))
    assert [job.job_id for job in jobs] == ["7_0", "7_1", "7_2", "7_3"]
    options = set(re.findall(r"#SBATCH --(.+)", (tmp_path / "submitted").read_text()))
    assert {"array=0-3%4", "gpus-per-node=1", "ntasks-per-node=2", "partition=gpu", "time=90"} <= options
    assert "signal=USR2@90" in options
    script = (tmp_path / "submitted").read_text()
    assert "\nmodule load cuda\n" in script
    assert " --mpi=none --quiet " in script
    Slurm(tmp_path, 2, None, {}).start(Worker(tmp_path, [], None), range(2))
    options = set(re.findall(r"#SBATCH --(.+)", (tmp_path / "submitted").read_text()))
    assert {"array=0-1%2", "cpus-per-task=1", "ntasks-per-node=1", "time=240"} <= options
    assert not [line for line in options if line.startswith("gpus")]


def test_a_setting_of_slurm_is_a_number_where_it_reads_as_one():
    words = ["a", "--slurm", "time=90", "--slurm", "account=0123", "--slurm", "comment=a=b"]
    settings = _parser().parse_args(words).slurm
    assert settings == [("time", 90), ("account", "0123"), ("comment", "a=b")]
    for wrong in ("time", "=90"):
        with pytest.raises(argparse.ArgumentTypeError, match=f"^'{wrong}' is not KEY=VALUE$"):
            command._setting(wrong)


@pytest.mark.parametrize(
    ("setting", "line", "there"),
    [
        ("exclusive=true", "#SBATCH --exclusive\n", True),
        ("exclusive=user", "#SBATCH --exclusive=user\n", True),
        ("exclusive=false", "--exclusive", False),
        ("use_srun=false", "srun --unbuffered", False),
        ("stderr_to_stdout=false", "#SBATCH --error=", True),
        ("stderr_to_stdout=true", "#SBATCH --error=", False),
        ("teardown=module purge", "# teardown\nmodule purge", True),
    ],
)
def test_a_switch_and_lines_of_the_script_reach_slurm_as_they_were_meant(setting, line, there, commands, tmp_path):
    arguments = _parser().parse_args(["algorithms", "--slurm", setting])
    Slurm(tmp_path, None, None, dict(arguments.slurm)).start(Worker(tmp_path, [], None), [0])
    script = (tmp_path / "submitted").read_text()
    assert (line in script) is there
    assert "-m submitit.core._submit" in script


def test_workers_of_this_machine_share_the_gpus_that_the_sweep_may_use(tmp_path, monkeypatch):
    monkeypatch.setattr(places.torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,GPU-5e")
    with pytest.raises(InputError, match=r"--workers 3, each with 0\.6 of a GPU, are too many for 2 GPUs; .* 2, "):
        places.Local(tmp_path, 3, 0.6)
    assert places.Local(tmp_path, 2, 0.6).slots(trials=9) == 2
    local, submitted, seen = places.Local(tmp_path, None, 0.4), [], []
    job = mock.Mock(spec=places.submitit.Job)
    monkeypatch.setattr(local.executor, "submit", lambda task: submitted.append(task) or job)
    monkeypatch.setattr(Worker, "__call__", lambda _: seen.append(os.environ["CUDA_VISIBLE_DEVICES"]))
    local.start(Worker(tmp_path, [], None), range(local.slots(trials=9)))
    for task in submitted:
        task()
    assert seen == ["5", "GPU-5e", "5", "GPU-5e"]


# --- workers, killed and watched ----------------------------------------------------------------------


@pytest.fixture
def trials(tmp_path, empty_checkout, monkeypatch):
    """Builds trials over images of stripes."""
    monkeypatch.setenv("ANNULUS_CHECKPOINT_SECONDS", "0")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE), prepend=os.pathsep)
    at_once = functools.partial(places.submitit.LocalExecutor, python=str(warm.folder() / "python"))
    monkeypatch.setattr(places.submitit, "LocalExecutor", at_once)
    folder = tmp_path / "images"
    for split, (images, seed) in {"train": (70, 0), "validation": (10, 1), "test": (30, 2)}.items():
        save_images(folder / f"{split}.safetensors", stripes(images, seed))

    def build(**changes: dict) -> list[StudyRun]:
        runs = {name: variant(0, change) for name, change in changes.items()}
        hashes, code = hash_images(folder), TrialCode()
        return [
            StudyRun(name, folder, run, CachedRun(run, hashes, code.hashes(run), CPU)) for name, run in runs.items()
        ]

    return build


def watch(trials: list[StudyRun], notes: Path, workers: int = 2) -> Watch:
    notes.mkdir()
    return Watch(trials, notes, Local(notes, workers, None), os.getpid())


def at_work(trial: StudyRun) -> int:
    """Waits until a trial has saved a state and returns the process that trains it."""
    checkpoint = trial.cached.checkpoint
    before = checkpoint.state.stat().st_mtime_ns if checkpoint.state.exists() else 0
    while not (checkpoint.held() and checkpoint.state.exists() and checkpoint.state.stat().st_mtime_ns > before):
        time.sleep(0.01)
    return int((checkpoint.folder / "lock").read_text().split()[0])


def test_a_stopped_sweep_and_a_killed_worker_cost_nothing(trials, tmp_path, caplog):
    """The numbers equal those of the run alone. Ctrl-C leaves no worker behind."""
    caplog.set_level(logging.INFO)
    long, short = trials(long={"scales.tiny.pretrain.epochs": 40}, short={})
    checkpoint = long.cached.checkpoint

    def sweep_until_stopped() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
        watch([long], tmp_path / "stopped").run()

    stopped = get_context("fork").Process(target=sweep_until_stopped)
    stopped.start()
    worker = at_work(long)
    os.kill(stopped.pid, signal.SIGINT)
    stopped.join()
    assert not Path(f"/proc/{worker}").exists()
    assert (checkpoint.state.exists(), checkpoint.held()) == (True, False)

    threading.Thread(target=lambda: os.kill(at_work(long), signal.SIGKILL)).start()
    sweep = watch([long, short], tmp_path / "notes")
    sweep.run()
    assert sweep.failed == []
    assert "long: its worker was killed; another worker continues" in caplog.text
    assert re.search(r"long: done in \d+ s \(\d of 2\)", caplog.text)
    logs = [path.read_text() for path in (tmp_path / "notes").glob("*_log.err")]
    assert len(re.findall(r"long: resuming at epoch \d+", "".join(logs))) == 2
    outcome = long.cached.read()
    for path in Path(".annulus/outcomes").iterdir():
        path.unlink()
    alone = Trials(load_splits(long.images))
    assert alone.run({0: long.trial}) == {0: outcome}


def test_a_run_that_fails_is_told_and_the_others_go_on(trials, tmp_path):
    run, whole = trials(diverging={"samplers.ring.outer": 0.9}, whole={})
    trial = diverging(run.trial)
    cached = CachedRun(trial, hash_images(run.images), TrialCode().hashes(trial), CPU)
    sweep = watch([StudyRun("diverging", run.images, trial, cached), whole], tmp_path / "notes", workers=1)
    sweep.run()
    (failed,) = sweep.failed
    assert re.match(r"diverging: the loss is nan at step .*; lower scales\.SCALE", failed)
    assert whole.cached.read() is not None


def test_a_run_whose_outcome_is_damaged_is_trained(trials, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    (trial,) = trials(damaged={})
    trial.cached.file.parent.mkdir(parents=True)
    trial.cached.file.write_text("{")
    watch([trial], tmp_path / "notes").run()
    assert trial.cached.read() is not None
    assert re.search(r"damaged: done in \d+ s \(1 of 1\)", caplog.text)


def test_workers_that_came_after_an_edit_of_the_code_are_refused(trials, tmp_path):
    (trial,) = trials(edited={})
    cached = CachedRun(trial.trial, hash_images(trial.images), {"methods/ir.py": "as it was"}, CPU)
    edited = r"a worker ended: .*the code or the images were edited after the sweep began; "
    with pytest.raises(InputError, match=edited):
        watch([StudyRun("edited", trial.images, trial.trial, cached)], tmp_path / "notes").run()


class Killed(places.Executor):
    """Jobs that end without a result, at the first trial or before any."""

    tasks = 1

    def __init__(self, notes: Path, begun: bool) -> None:
        self.notes, self.begun, self.started = notes, begun, 0

    def slots(self, trials: int) -> int:
        return 1

    def start(self, worker: Worker, slots: list[int]) -> list:
        self.started += 1
        if self.begun:
            write_text(self.notes / f"begun-0-{self.started}", "")
        return [places.submitit.Job(self.notes, str(self.started))]

    def stop(self, jobs: list) -> None: ...


@pytest.mark.parametrize("begun", [True, False], ids=["at a run", "before any"])
def test_a_run_that_kills_its_workers_is_given_up(trials, tmp_path, monkeypatch, begun):
    monkeypatch.setattr(places.submitit.Job, "done", lambda job: True)
    executor = Killed(tmp_path, begun)
    sweep = Watch(trials(hungry={}), tmp_path, executor, None)
    if begun:
        sweep.run()
        assert re.match(r"hungry: 3 workers were killed at it; its last words are in .*3_0_log\.err", sweep.failed[0])
    else:
        with pytest.raises(InputError, match=r"3 workers were killed before they took a trial; its last words are in"):
            sweep.run()
    assert executor.started == 3


def test_a_preempted_job_leaves_its_slot_to_another_and_no_run_is_blamed(trials, commands, tmp_path, caplog):
    """With PreemptMode=CANCEL such a job never begins again; submitit waits for it."""
    caplog.set_level(logging.INFO)
    sent, cancelled = tmp_path / "sent", tmp_path / "cancelled"
    for name, script in (
        ("sbatch", f"echo >>'{sent}'; echo Submitted batch job 81$(grep -c '' '{sent}')"),
        ("sacct", "echo 'JobID|State|NodeList'; echo '811|PREEMPTED|a'; echo '812|RUNNING|a'"),
        ("scancel", f"echo $* >>'{cancelled}'"),
    ):
        (commands / name).write_text(f"#!/bin/sh\n{script}\n")
    notes = tmp_path / "notes"
    notes.mkdir()
    sweep = Watch(trials(preempted={}), notes, Slurm(notes, 1, None, {}), None)
    sweep._start()
    write_text(notes / "begun-0-811", "")
    for _ in range(2):
        sweep._bury()
        sweep._start()
    assert [job.job_id for job in sweep.jobs.values()] == ["812"]
    assert cancelled.read_text() == "--quiet 811\n"  # Slurm may have requeued it
    assert not sweep.kills
    assert "preempted: its worker was preempted; another worker continues" in caplog.text


def test_an_answer_of_sacct_in_another_encoding_is_read(trials, commands, tmp_path):
    sacct = r"printf 'JobID|State|NodeList\n7|RUNNING|n\366rd\n'"
    (commands / "sacct").write_text(f"#!/bin/sh\n{sacct}\n")
    sweep = Watch(trials(one={}), tmp_path, Slurm(tmp_path, 1, None, {}), None)
    sweep._start()
    (job,) = sweep.jobs.values()
    assert (job.done(), job.state) == (False, "RUNNING")


def test_jobs_are_cancelled_one_by_one_whatever_their_states(trials, commands, tmp_path, monkeypatch):
    cancelled = tmp_path / "cancelled"
    (commands / "scancel").write_text(f"#!/bin/sh\necho $* >>'{cancelled}'; exit 1\n")
    sweep = Watch(trials(one={}, two={}), tmp_path, Slurm(tmp_path, 2, None, {}), None)

    def confused(job):
        raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    def start_and_look():
        sweep._start()
        monkeypatch.setattr(places.submitit.SlurmJob, "done", confused)
        return next(iter(sweep.jobs.values())).done()

    monkeypatch.setattr(sweep, "_look", start_and_look)
    with pytest.raises(UnicodeDecodeError):
        sweep.run()
    assert cancelled.read_text().splitlines() == ["--quiet 7_0", "--quiet 7_1"]


class Twos(Killed):
    """Places for more jobs than are wanted, each of two workers."""

    tasks = 2

    def slots(self, trials: int) -> int:
        return 5

    def start(self, worker: Worker, slots: list[int]) -> list:
        return [super(Twos, self).start(worker, [slot])[0] for slot in slots]


def test_as_many_workers_are_started_as_runs_are_without_one_and_those_that_look_for_one_count(
    trials, tmp_path, monkeypatch
):
    monkeypatch.setattr(places.submitit.Job, "done", lambda job: False)
    sweep = Watch(trials(one={}, two={}, three={}), tmp_path, Twos(tmp_path, begun=False), None)
    for _ in range(2):
        sweep._start()
        assert sorted(sweep.jobs) == [0, 1], "of four workers three find a run"
    write_text(tmp_path / "begun-0-1", "")
    del sweep.jobs[1]
    sweep._start()
    assert sorted(sweep.jobs) == [0, 1]


class Busy(Killed):
    """Starts a job at first, and then refuses others."""

    def slots(self, trials: int) -> int:
        return 2

    def start(self, worker: Worker, slots: list[int]) -> list:
        if self.started:
            raise InputError("Slurm refuses the workers: Socket timed out")
        return super().start(worker, slots)


def test_a_cluster_that_refuses_a_job_is_asked_again_while_others_go_on(trials, tmp_path, monkeypatch, caplog):
    """Otherwise one missing answer would cancel all running jobs."""
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(places.submitit.Job, "done", lambda job: False)
    sweep = Watch(trials(one={}, two={}), tmp_path, Busy(tmp_path, begun=False), None)
    sweep.slots = 1
    sweep._start()
    write_text(tmp_path / "begun-0-1", "")
    sweep.slots = 2
    for _ in range(3):
        sweep._start()
    assert caplog.text.count("Socket timed out; the present workers go on") == 1
    sweep.jobs.clear()
    sweep.ask_at = 0.0
    with pytest.raises(InputError, match=r"^Slurm refuses the workers: Socket timed out$"):
        sweep._start()


def test_workers_that_are_killed_between_trials_do_not_end_a_sweep_that_goes_on(trials, tmp_path):
    sweep = Watch(trials(first={}, second={}), tmp_path, Killed(tmp_path, begun=False), None)
    job = places.submitit.Job(tmp_path, "7")
    for number in (0, 1):
        for _ in range(2):
            sweep._killed(job, tmp_path / "err")
        sweep._over(number, "done in 1 s")
    sweep._killed(job, tmp_path / "err")
    assert sweep.kills[None] == 1
