"""Runs each call of the benchmarks once and small: they are started by hand, so no other test would fail."""

import importlib
import json
import sys
import zlib
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
import warm
from compilers import needs_compiler

BENCHMARKS = Path(__file__).parent / "benchmarks"
SWEPT = "10 runs, 0 of them done; 2 workers, logs in here\n100 s; the runs' own times add up to 190 s: 95 % of"
SMALL = {
    "compile": {"IMAGES": 40, "BATCH": 4, "NEGATIVES": 8},
    "coverage": {"RUNS": 2, "IMAGES": 20},
    "detection": {"SIDES": (12, 24, 50, 100), "CHANNELS": 2, "BOXES": 4, "BINS": 2},
    "distillation": {"IMAGES": 80, "CLASSES": 4, "SIZE": 8},
    "estimators": {"TURNS": 1, "UPDATES": 1, "JOINT_UPDATES": 1, "PAIRS": 8},
    "later": {"IMAGES": 600},
    "linear": {"TRAIN": 60, "TEST": 40, "DIM": 8},
    "paper_studies": {"SCALE": "tiny", "PART": 10, "STEPS": 1},
    "negatives": {"IMAGES": 600, "DIM": 8, "BATCH": 8, "NEGATIVES": 16, "CLUSTERS": 4, "ITERATIONS": 2, "RUNS": 2},
    "memory": {"DIM": 8, "QUERIES": 4, "KEYS": 50, "BATCH": 4, "ROWS": 300, "NEGATIVES": 8},
    "methods": {"IMAGES": 48, "BATCH": 8, "QUEUE": 16, "LONG_QUEUE": 48, "find_spec": lambda _: None},
    "step": {"IMAGES": 40, "BATCH": 4, "NEGATIVES": 8},
    "store": {
        "IMAGES": 8,
        "BATCH": 4,
        "STEP_BATCH": 2,
        "FEW": 40,
        "MANY": 60,
        "LARGE": 50,
        "TILES": 2,
        "LOCK_SECONDS": 0.1,
    },
    "sweep": {"sweep_output": lambda _: SWEPT},
    "views": {
        "SMALL": {"size": 32, "stored": (32, 32), "batch": 4},
        "LARGE": {"size": 224, "stored": (256, 341), "batch": 2},
        "ROUNDS": 1,
        "LOADER": {"images": 2, "batch": 2, "workers": 0},
    },
}


PEERS = ("kornia", "lightly", "albumentations", "stable_pretraining")


def call_once(contestants, *_, **__):
    """Stands in for `medians`."""
    for call in contestants.values():
        call()
    return dict.fromkeys(contestants, 1.0)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in ("store", "distillation", "paper_studies") else name
        for name in SMALL
    ],
)
def test_a_benchmark_writes_its_ratios(name, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    for peer in ("kornia", "albumentations"):  # hides these peers; `find_spec` above hides the other two
        monkeypatch.setitem(sys.modules, peer, None)
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    bench = importlib.import_module(f"bench_{name}")
    monkeypatch.setattr(sys.modules["timing"], "METRICS", tmp_path)
    if name == "compile":  # compiling takes a minute
        monkeypatch.setattr(torch, "compile", lambda call, **_: call)
    if name in ("compile", "methods", "step", "store"):
        steps = {"BACKBONES": dict.fromkeys(("imagenet", "cifar"), "alexnet-fast"), "EPOCH_TURNS": 1}
        for constant, value in (steps | {"EPOCH_BATCHES": {"cuda": 5, "cpu": 5}}).items():
            monkeypatch.setattr(sys.modules["steps"], constant, value)
    changes = SMALL[name] | {"medians": call_once}
    if name in ("coverage", "methods", "paper_studies", "sweep"):
        del changes["medians"]  # they have their own turns, or none
    if name == "distillation":
        build = bench.build_classifier
        changes["build_classifier"] = lambda _, *arguments: build("resnet8", *arguments)
        changes["CRD"] = bench.CRD | {"contrast": bench.CRD["contrast"] | {"negatives": 16, "dim": 8}}
    if name == "methods":
        timed_turn = bench.timed_turn
        changes["timed_turn"] = lambda step, *_: timed_turn(step, 0, 1)
    if name == "store":
        monkeypatch.setattr(sys, "executable", str(warm.folder() / "python"))  # for `prepare`, three times
    if name == "estimators":
        params = replace(bench.PARAMS, points=64, batch_size=16, negatives=8)
        changes |= {"PARAMS": params, "RUNS": bench.RUNS[-2:], "map_processes": map}  # `map_processes` forks
    for constant, value in changes.items():
        monkeypatch.setattr(bench, constant, value)
    bench.main()
    assert (tmp_path / f"{name}.json").exists()
    for path in tmp_path.iterdir():
        written = json.loads(path.read_text())
        committed = json.loads((BENCHMARKS.parents[1] / "metrics" / "benchmarks" / path.name).read_text())
        assert written.keys() >= {key for key in committed if not any(peer in key for peer in PEERS)}
        assert all(value >= 0 for value in written.values() if isinstance(value, int | float))


def test_every_benchmark_is_run_here():
    manual = {"dvc"}  # its argument is a checkout of DVC's example project
    assert {path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py")} - manual == SMALL.keys()


@pytest.fixture
def small_methods(monkeypatch, tmp_path):
    """bench_methods.py with few images and with metrics in `tmp_path`."""
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    bench = importlib.import_module("bench_methods")
    monkeypatch.setattr(sys.modules["timing"], "METRICS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["bench_methods.py", "stable_pretraining", "moco"])
    for constant, value in {"IMAGES": 48, "BATCH": 8, "QUEUE": 16, "CORES": 1, "STABLE_STEPS": ((8, 1, 1),)}.items():
        monkeypatch.setattr(bench, constant, value)
    backbones = dict.fromkeys(("imagenet", "cifar"), "alexnet-fast")
    monkeypatch.setattr(sys.modules["steps"], "BACKBONES", backbones)
    return bench


def test_a_benchmark_says_how_to_install_a_library_that_is_missing(small_methods, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(small_methods, "find_spec", lambda _: None)
    small_methods.main()
    output, _, _ = capsys.readouterr().out.partition("metrics/")
    assert output == (
        "without stable_pretraining's rows: it is not installed; "
        "`pip install stable-pretraining` brings it, with many packages\n"
    )
    written = json.loads((tmp_path / "methods_stable_pretraining_moco.json").read_text())
    assert written["moco_imagenet_stem_images_per_second"] > 0
    assert not any("stable_pretraining" in key for key in written)


@pytest.mark.skipif(find_spec("stable_pretraining") is None, reason="stable-pretraining is not installed")
def test_stable_pretraining_takes_turns_with_annulus(small_methods, tmp_path):
    small_methods.main()
    written = json.loads((tmp_path / "methods_stable_pretraining_moco.json").read_text())
    assert written["moco_imagenet_stem_times_stable_pretraining"] > 0
    assert written["moco_imagenet_stem_bare_times_stable_pretraining_bare"] > 0
    assert written["moco_imagenet_stem_stable_pretraining_workers"] in (0, 1)
    assert not any(key.startswith("simclr") for key in written)


@needs_compiler
def test_python_computes_under_its_lock_and_zlib_does_not(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    under_lock, content = importlib.import_module("python_lock").under_lock, bytes(range(256)) * 4096
    for work, share in ((lambda: sum(range(100_000)), 1), (lambda: zlib.compress(content), 0)):
        each, held = under_lock(work, 0.4)
        assert held / each == pytest.approx(share, abs=0.1)
