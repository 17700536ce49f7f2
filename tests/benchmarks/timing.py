"""Timing by interleaved repetitions, so that other load slows every contestant alike. Puts Annulus on the path."""

import json
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "stages"))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "src"))

import torch

from annulus_lab.pipeline.provenance import processor

ROOT = Path(__file__).resolve().parents[2]
METRICS = ROOT / "metrics" / "benchmarks"


def calls_per_turn(device: torch.device) -> int:
    """Number of short calls between two clock readings: 30 on a GPU, where a call only queues work.

    A wait after each call would hide the time that a loop spends on waiting or on slow queueing.
    """
    return 30 if device.type == "cuda" else 1


def synchronize() -> None:
    """Waits for a GPU's queue, where there is a GPU."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def medians(
    contestants: Mapping[str, Callable[[], object]],
    repetitions: int,
    calls: int = 1,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Median seconds per call of each contestant, over turns of `calls` in a row, after one warm-up turn each."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repetitions + 1):
        for name, call in contestants.items():
            started = clock()
            for _ in range(calls):
                call()
            synchronize()
            if turn > 0:
                seconds[name].append((clock() - started) / calls)
    return {name: statistics.median(times) for name, times in seconds.items()}


def write(name: str, device: torch.device, **numbers: float | int) -> None:
    """Writes and prints metrics/benchmarks/NAME.json (NAME_gpu.json on a GPU): the numbers and the machine."""
    for key, number in numbers.items():
        if isinstance(number, float):
            numbers[key] = round(number) if key.endswith("per_second") else round(number, 1 if "percent" in key else 3)
    machine = {
        "processor": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    text = json.dumps({**numbers, **machine}, indent=2, sort_keys=True)
    METRICS.mkdir(parents=True, exist_ok=True)
    name = f"{name}_gpu" if device.type == "cuda" else name
    (METRICS / f"{name}.json").write_text(text + "\n")
    print(f"metrics/benchmarks/{name}.json {text}")
