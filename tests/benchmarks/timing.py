"""Timing by interleaved repetitions: the machine's mood falls on every contestant alike."""

import json
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from annulus.pipeline.provenance import processor

METRICS = Path(__file__).resolve().parents[2] / "metrics" / "benchmarks"


def medians(contestants: Mapping[str, Callable[[], object]], repetitions: int) -> dict[str, float]:
    """Median seconds of each contestant, all measured in turns after one call each to warm up."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repetitions + 1):
        for name, call in contestants.items():
            started = time.perf_counter()
            call()
            if torch.cuda.is_available():
                torch.cuda.synchronize()
            if turn > 0:
                seconds[name].append(time.perf_counter() - started)
    return {name: statistics.median(times) for name, times in seconds.items()}


def write(name: str, numbers: Mapping[str, object], device: torch.device) -> None:
    """Write metrics/benchmarks/NAME.json with the machine beside the numbers, and print it."""
    machine = {
        "processor": torch.cuda.get_device_name(device) if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
    }
    text = json.dumps({**numbers, **machine}, indent=2, sort_keys=True)
    METRICS.mkdir(parents=True, exist_ok=True)
    (METRICS / f"{name}.json").write_text(text + "\n")
    print(f"metrics/benchmarks/{name}.json {text}")
