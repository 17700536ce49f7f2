"""The benchmarks still run, each call once and small: they are started by hand, so nothing else would notice."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch
import warm

BENCHMARKS = Path(__file__).parent / "benchmarks"
SMALL = {
    "estimators": {"TURNS": 1, "UPDATES": 1, "JOINT_UPDATES": 1, "PAIRS": 8},
    "linear": {"TRAIN": 60, "TEST": 40, "DIM": 8},
    "negatives": {"IMAGES": 600, "DIM": 8, "BATCH": 8, "NEGATIVES": 16, "CLUSTERS": 4, "ITERATIONS": 2, "RUNS": 2},
    "memory": {"DIM": 8, "QUERIES": 4, "KEYS": 50, "BATCH": 4, "ROWS": 300, "NEGATIVES": 8},
    "step": {"IMAGES": 40, "BATCH": 4, "NEGATIVES": 8, "EPOCH_IMAGES": {"cuda": 20, "cpu": 20}},
    "store": {"IMAGES": 8, "BATCH": 4, "STEP_BATCH": 2, "FEW": 40, "MANY": 60, "LARGE": 50, "TILES": 2},
    "views": {"BATCH": 4, "ROUNDS": 1},
}


def called_once(contestants, *_, **__):
    """In place of `medians`."""
    for call in contestants.values():
        call()
    return dict.fromkeys(contestants, 1.0)


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_writes_its_ratios(name, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    monkeypatch.setitem(sys.modules, "kornia", None)  # as where it is not installed
    monkeypatch.setattr(torch, "set_num_threads", lambda _: None)
    bench = importlib.import_module(f"bench_{name}")
    monkeypatch.setattr(sys.modules["timing"], "METRICS", tmp_path)
    if name in ("step", "store"):
        monkeypatch.setattr(sys.modules["steps"], "BACKBONES", dict.fromkeys(("imagenet", "cifar"), "alexnet-fast"))
    changes = SMALL[name] | {"medians": called_once}
    if name == "store":
        monkeypatch.setattr(sys, "executable", str(warm.folder() / "python"))  # of `prepare`, three times
    if name == "estimators":
        params = bench.PARAMS.model_copy(update={"points": 64, "batch_size": 16, "negatives": 8})
        changes |= {"PARAMS": params, "RUNS": bench.RUNS[-2:], "each": map}  # `each` forks
    for constant, value in changes.items():
        monkeypatch.setattr(bench, constant, value)
    bench.main()
    assert (tmp_path / f"{name}.json").exists()
    for path in tmp_path.iterdir():
        written = json.loads(path.read_text())
        committed = json.loads((BENCHMARKS.parents[1] / "metrics" / "benchmarks" / path.name).read_text())
        assert written.keys() >= committed.keys() - {key for key in committed if "kornia" in key}
        assert all(value >= 0 for value in written.values() if isinstance(value, int | float))


def test_only_the_comparison_with_lightly_is_not_run_here():
    """It needs a package that the tests do without."""
    every = {path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py")}
    assert every - SMALL.keys() == {"methods"}
