"""The main line as a user runs it, at `scale: tiny`, in a temporary checkout."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import warm
import yaml
from declared import ROOT

pytestmark = pytest.mark.slow

STAGES = ["check", "prepare", "pretrain", "embed", "knn", "linear", "diagnostics", "summary"]


class Checkout:
    """A committed copy of this working tree, with or without its metrics, with its own DVC cache; tiny, three seeds."""

    def __init__(self, folder: Path, metrics: bool = False) -> None:
        self.folder = folder
        listed = subprocess.check_output(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"], cwd=ROOT, text=True
        )
        for name in filter(None, listed.split("\0")):
            numbers = name.startswith("metrics/") and not name.endswith("dvc.yaml")
            result = name.endswith("dvc.lock") or (numbers and not metrics)
            if (ROOT / name).is_file() and not result:
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(ROOT / name, folder / name)
        self.edit("params.yaml", "scale: demo ", "scale: tiny ")
        self.edit("params.yaml", "- 2\n- 3\n- 4\n", "- 2\n")
        self.git("init", "-q")
        self.commit()

    def git(self, *words: str) -> None:
        name = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
        subprocess.run(["git", *name, *words], cwd=self.folder, check=True, capture_output=True)

    def commit(self) -> None:
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "test")

    def command(self, *words: str, python: Path | None = None, **environment: str) -> dict:
        """What Popen needs to run dvc here, in an environment without the caller's own tracking."""
        python = python or warm.folder() / "python"
        path = os.pathsep.join([str(python.parent), os.environ["PATH"]])
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DVC_", "MLFLOW_"))}
        env = inherited | {"PATH": path, "CI": "true", "ANNULUS_TRACKING": "off"} | environment
        return {"args": [str(python), "-m", "dvc", *words], "cwd": self.folder, "env": env, "text": True}

    def dvc(self, *words: str, status: int = 0, **environment: Any) -> str:
        done = subprocess.run(**self.command(*words, **environment), capture_output=True)
        output = done.stdout + done.stderr
        assert done.returncode == status, output
        return output

    def run(self, *words: str) -> str:
        """What Python prints here."""
        command = self.command(PYTHONPATH="src")
        return subprocess.check_output([command["args"][0], *words], cwd=self.folder, env=command["env"], text=True)

    def edit(self, path: str, old: str, new: str) -> None:
        text = (self.folder / path).read_text()
        assert old in text, f"{path} has no {old!r}"
        (self.folder / path).write_text(text.replace(old, new, 1))

    def restore(self) -> None:
        self.git("read-tree", "HEAD")  # forgets file times: after `exp run` git may take a changed file for unchanged
        self.git("checkout", "-q", "--force", "HEAD", "--", ".")

    def changed(self) -> set[str]:
        """The main line's stages whose own dependencies have changed."""
        return set(json.loads(self.dvc("status", "--json", *STAGES)))

    def changed_files(self) -> list[str]:
        """What differs from the last commit."""
        status = subprocess.check_output(["git", "status", "--porcelain"], cwd=self.folder, text=True)
        return sorted(line[3:] for line in status.splitlines())

    def read(self, path: str) -> dict:
        return json.loads((self.folder / path).read_text())

    def output_hash(self, stage: str, path: str) -> str:
        outputs = yaml.safe_load((self.folder / "dvc.lock").read_text())["stages"][stage]["outs"]
        return next(out["md5"] for out in outputs if out["path"] == path)


def ran(output: str) -> list[str]:
    return re.findall(r"Running stage '(\w+)'", output)


def metrics_of(checkout: Checkout) -> dict[str, bytes]:
    files = (path for path in (checkout.folder / "metrics").rglob("*.*") if path.is_file())
    return {path.name: path.read_bytes() for path in files if path.name != "confusion.csv"}  # of DVC's cache


@pytest.fixture(scope="module")
def repository(tmp_path_factory) -> Checkout:
    checkout = Checkout(tmp_path_factory.mktemp("annulus"))
    output = checkout.dvc("repro", ANNULUS_TRACKING="on")
    assert sorted(ran(output)) == sorted(STAGES)  # DVC runs what follows embed in any order
    assert "knn_top1_percent" in output, "the run ends with its table"
    checkout.commit()
    return checkout


@pytest.fixture
def checkout(repository) -> Checkout:
    """The reproduced checkout, as it was committed."""
    yield repository
    repository.restore()


def test_the_metrics_are_whole_finite_and_within_their_ceilings(checkout):
    summary = checkout.read("metrics/summary.json")
    assert summary["train_images"] == 360
    assert len(summary) == 14, "the headline dozen, and the intervals of two"
    assert summary["bound_nats"] <= summary["bound_ceiling_nats"]
    for name, value in summary.items():
        assert not name.endswith("_percent") or 0 <= value <= 100
    confusion = (checkout.folder / "metrics/main/confusion.csv").read_text().splitlines()
    assert len(confusion) == 101
    for stage in ("pretrain", "knn", "linear", "diagnostics"):
        assert list(checkout.read(f"metrics/main/{stage}.json")) == ["0", "1", "2"]
    top1 = [seed["top1_percent"] for seed in checkout.read("metrics/main/knn.json").values()]
    assert summary["knn_top1_percent"] == pytest.approx(sum(top1) / 3, abs=0.01)
    assert len(set(top1)) > 1, "seeds differ"


REACHED = [
    ("params.yaml", "runs: 1", "runs: 2", {"diagnostics"}),  # samplers.cave, while ring is selected: no training
    ("params.yaml", "prepare: {train_images: 4000", "prepare: {train_images: 5000", set()),  # of another scale
    ("params.yaml", "momentum: 0.999", "momentum: 0.99", set()),  # methods.moco, while ir is selected
    ("params.yaml", "normaliser: constant", "normaliser: exact", set()),  # binary-nce's, while infonce is selected
    ("params.yaml", "share: 0.01", "share: 0.02", set()),  # neighbour_sets.s, while none is selected
    ("params.yaml", "eqco_alpha: null", "eqco_alpha: 64.0", {"pretrain"}),  # bounds.infonce
    ("params.yaml", "knn: {k: 20", "knn: {k: 10", {"check", "knn"}),
    ("params.yaml", "weight_decay: 1.0e-5", "weight_decay: 0.0", {"check", "linear"}),
    ("params.yaml", "inner: 0.01", "inner: 0.02", {"pretrain", "diagnostics"}),
    ("src/annulus/evals/knn.py", '"""', '""" ', {"knn", "linear", "diagnostics"}),  # a room is declared whole
    ("src/annulus/negatives/samplers.py", '"""', '""" ', {"pretrain", "diagnostics"}),
    ("src/annulus/diagnostics/measures.py", '"""', '""" ', {"diagnostics"}),
    ("src/annulus/methods/moco.py", '"""', '""" ', {"pretrain"}),
    ("src/annulus/datasets/folder.py", '"""', '""" ', {"prepare"}),
    ("src/annulus/views/crop.py", '"""', '""" ', {"pretrain", "embed", "linear"}),
]


def test_running_again_does_nothing_and_an_edit_reruns_what_it_reaches_alone(checkout):
    assert ran(checkout.dvc("repro")) == []
    for path, old, new, reached in REACHED:
        checkout.edit(path, old, new)
        assert checkout.changed() == reached, (path, old)
        checkout.restore()


def test_every_selector_changes_with_one_word_and_the_run_can_be_compared(checkout):
    before = metrics_of(checkout)
    words = ["sampler=ball", "method=moco", "bound=mlcpc", "anneal=adaptive-step", "views=strong"]
    words += ["backbone=alexnet-fast", "schedule=plateau", "seeds=[1,5]"]
    selected = [word for choice in words for word in ("-S", choice)]
    assert sorted(ran(checkout.dvc("exp", "run", "-n", "others", *selected))) == sorted(STAGES)
    summary = checkout.read("metrics/summary.json")
    assert summary["bound_nats"] <= summary["bound_ceiling_nats"]
    assert "ball" in checkout.dvc("params", "diff", "HEAD")
    assert checkout.dvc("metrics", "diff", "HEAD")
    assert "others" in checkout.dvc("exp", "show", "--csv", "--drop", "src|stages|data")
    compared = checkout.run("-m", "annulus.compare", "HEAD", "others")
    assert "sampler: ring -> ball" in compared
    assert "NOT in pairs, since the seeds differ" in compared
    checkout.git("checkout", "HEAD", "--", "params.yaml")
    assert ran(checkout.dvc("repro")) == [], "the earlier variant comes back from the run cache"
    assert metrics_of(checkout) == before


RIG = ("sampler: ring", "sampler: rig", "sampler: 'rig' is none of uniform, ball, ring, cave; did you mean 'ring'?")
BORDERS = ("inner: 0.01", "inner: 0.5", "samplers.ring: ring needs inner < outer, got inner=0.5, outer=0.1")


@pytest.mark.parametrize(
    ("by", "old", "new", "sentence"),
    [
        # DVC would delete pretrain's metrics before it misses samplers.rig: the check comes first.
        ("repro", *RIG),
        ("exp run", *RIG),
        ("repro", "- 2\n", "- 1\n", "seeds: [0, 1, 1] names a seed twice, which would be one run, not two"),
        # A stage has begun by then, and puts back what DVC has deleted.
        ("repro", *BORDERS),
        ("exp run", *BORDERS),
        ("repro", "dataset: shapes", "dataset: folder", "data/folder"),
    ],
)
def test_a_mistake_in_the_parameters_costs_no_metrics_file(checkout, by, old, new, sentence):
    before = metrics_of(checkout)
    checkout.edit("params.yaml", old, new)
    output = checkout.dvc(*by.split(), status=255)
    assert sentence in output
    assert "Traceback" not in output
    assert metrics_of(checkout) == before
    assert set(checkout.changed_files()) <= {"dvc.lock", "params.yaml"}, "what ran before the mistake is in the lock"


def test_a_stage_that_fails_midway_costs_no_metrics_file(checkout):
    before = metrics_of(checkout)
    checkout.edit("stages/pretrain.py", "history = training.run(checkpoint)", "history = training.run(checkpoint) / 0")
    output = checkout.dvc("repro", status=255)
    assert ran(output)[-1] == "pretrain"
    assert "TypeError: unsupported operand" in output
    assert metrics_of(checkout) == before
    assert set(checkout.changed_files()) <= {"dvc.lock", "stages/pretrain.py"}


def test_a_killed_pretraining_goes_on_and_ends_in_the_same_bytes(checkout):
    checkout.edit("params.yaml", "pretrain:\n      epochs: 2", "pretrain:\n      epochs: 8")
    process = subprocess.Popen(
        **checkout.command("repro", "pretrain", ANNULUS_CHECKPOINT_SECONDS="0.5"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while len(list(checkout.folder.glob(".annulus/checkpoints/pretrain/*/*.pt"))) < 3:
        with pytest.raises(subprocess.TimeoutExpired):  # of two cores one has ended a seed, and is at the third
            process.wait(0.1)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert "resuming at epoch" in checkout.dvc("repro", "pretrain")
    resumed = checkout.output_hash("pretrain", "data/main/encoders")
    assert not list(checkout.folder.glob(".annulus/checkpoints/pretrain/*"))

    output = checkout.dvc("repro", "--force", "--single-item", "pretrain")
    assert "resuming" not in output
    assert checkout.output_hash("pretrain", "data/main/encoders") == resumed


def test_mlflow_holds_what_the_metrics_files_hold(checkout):
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{checkout.folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("annulus").experiment_id
    found = client.search_runs([experiment], order_by=["start_time ASC"])
    variant = next(run for run in found if "annulus.variant" in run.data.tags and run.data.metrics)
    assert variant.data.metrics == pytest.approx(checkout.read("metrics/summary.json"), abs=1e-4)
    below = {
        run.info.run_name: run.data.metrics
        for run in found
        if run.data.tags.get("mlflow.parentRunId") == variant.info.run_id
    }
    assert {"pretrain", "knn", "linear", "diagnostics", "seed 0", "seed 1", "seed 2"} <= below.keys()
    top1 = checkout.read("metrics/main/knn.json")["2"]["top1_percent"]
    assert below["seed 2"]["knn.top1_percent"] == pytest.approx(top1, abs=0.01)


def test_another_processor_is_within_the_noise_of_seeds(checkout):
    """Other instructions round otherwise, as another machine does. The last test: the run cache has its numbers now."""
    slower = {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "AVX2"}
    checkout.dvc("repro", "--force", "pretrain", python=Path(sys.executable), **slower)  # torch reads them once
    checkout.dvc("repro")
    compared = checkout.run("-m", "annulus.compare", "HEAD", "workspace")
    assert "The processors differ" in compared
    assert "no parameter differs" in compared
    differ = re.findall(r"^(\w+) .*  (?:better|worse|higher|lower)$", compared, re.MULTILINE)
    assert len(differ) <= 2, compared  # of 11 numbers chance makes 0.5 differ, and the bound goes with the loss
