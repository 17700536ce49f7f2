"""The benchmarks still run, at sizes that measure nothing: they are started by hand, so nothing else would notice."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent / "benchmarks"
SMALL = {
    "clusters": "IMAGES, CLUSTERS, ITERATIONS, REPETITIONS, BATCH, RUNS = 600, 4, 2, 1, 8, 2",
    "estimators": """
        PARAMS = bench.PARAMS.model_copy(update={"points": 64, "batch_size": 16, "negatives": 8})
        RUNS = bench.RUNS[-2:]
        TURNS, UPDATES, UPDATE_TURNS, JOINT_UPDATES, JOINT_TURNS, PAIRS = 1, 1, 1, 1, 1, 8""",
    "negatives": "IMAGES, DIM, BATCH, NEGATIVES, REPETITIONS = 1200, 8, 8, 16, 1",
    "step": """
        IMAGES, BATCH, NEGATIVES = 300, 8, 16
        EPOCH_IMAGES, EPOCH_TURNS = {"cuda": 64, "cpu": 64}, 1""",
    "views": "BATCH, REPETITIONS, ROUNDS = 4, 1, 1",
}
RUN = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import bench_{name} as bench  # puts src first
import timing
timing.METRICS = Path({metrics!r})
small = {{"bench": bench}}
exec({small!r}, small)
vars(bench).update({{name: value for name, value in small.items() if name.isupper()}})
bench.main()
"""


@pytest.mark.parametrize("name", SMALL)
def test_a_benchmark_writes_its_ratios(name, tmp_path):
    small = "\n".join(line.strip() for line in SMALL[name].splitlines())
    script = RUN.format(folder=str(BENCHMARKS), name=name, metrics=str(tmp_path), small=small)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    written = json.loads((tmp_path / f"{name}.json").read_text())
    committed = json.loads((BENCHMARKS.parents[1] / f"metrics/benchmarks/{name}.json").read_text())
    assert written.keys() >= committed.keys() - {key for key in committed if "kornia" in key}
    assert all(value >= 0 for value in written.values() if isinstance(value, int | float))


def test_only_the_comparison_with_lightly_is_not_run_here():
    """It needs a package that the tests do without."""
    every = {path.stem.removeprefix("bench_") for path in BENCHMARKS.glob("bench_*.py")}
    assert every - SMALL.keys() == {"methods"}
