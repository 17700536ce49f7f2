"""`annulus check-gpu`: checks in ten minutes that annulus is right and fast on this GPU.

Each part runs in its own process, so a crash does not affect other parts, and its rows are written when it ends. After
a crash or the time limit, the same command continues: it skips parts that ended on this device, with these versions and
this code. The exit status is 1 if a row is wrong or a part is left.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from annulus.device.device import pick_device
from annulus.errors import InputError
from annulus.files.results import write_text
from annulus.gpu import agreement, bits, kernel_code, speed
from annulus.gpu.result import FAST, RIGHT, SLOW, WRONG, CheckResult
from annulus.gpu.trainings import METHODS, Sizes
from annulus.running.code import hash_code

PARTS: Mapping[str, Callable[[torch.device, Sizes], Iterable[CheckResult]]] = {
    "kernels": kernel_code.part,
    "agreement": agreement.part,
    "selection": speed.selection,
    **{f"{method} {stem}": partial(speed.steps, method, stem) for stem in ("cifar", "imagenet") for method in METHODS},
    "shards": speed.shards,
    "bits": bits.part,
}
SECONDS, PART_SECONDS = 600.0, 150.0  # time limits of all parts and of one


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command."""
    parser = argparse.ArgumentParser(prog="annulus check-gpu", description=__doc__, allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=Path("check-gpu.json"), help="default: check-gpu.json")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="after which no part starts (default: 600)")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    # The bits of a product depend on cuBLAS's memory, which it allocates once in a process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if not torch.cuda.is_available():
        raise SystemExit(
            f"ERROR: torch {torch.__version__} sees no GPU here; `nvidia-smi` lists the driver's GPUs, and "
            "torch.version.cuda is None if this torch was built without CUDA"
        )
    if arguments.part is not None:
        print(json.dumps([*PARTS[arguments.part](pick_device(), Sizes())]))
        return
    sound = check(arguments.out, arguments.seconds, in_own_process)
    raise SystemExit(not sound)


def check(out: Path, seconds: float, run: Callable[[str], list[CheckResult]]) -> bool:
    """Runs the parts that are left, writes each when it ends, and prints the table; True if all ran without a fault."""
    until, key = time.monotonic() + seconds, machine()
    done = read_done(out, key)
    for name in PARTS:
        if (name not in done or "crashed" in done[name]) and time.monotonic() < until:
            print(f"{name} ...", file=sys.stderr, flush=True)
            started = time.monotonic()
            try:
                part = {"rows": run(name)}
            except Crashed as crash:
                part = {"rows": [CheckResult(name, str(crash), WRONG)], "crashed": True}
            done[name] = {"seconds": round(time.monotonic() - started, 1), **part}
            write_text(out, json.dumps({"machine": key, "parts": done}, indent=1) + "\n")
    print(table(key, done))
    left = [name for name in PARTS if name not in done]
    if left:
        print(f"left: {', '.join(left)}; run the same command again to continue")
    return not left and not any(CheckResult(*row).verdict == WRONG for part in done.values() for row in part["rows"])


class Crashed(Exception):
    """A part crashed or exceeded its time."""


def in_own_process(name: str) -> list[CheckResult]:
    """Runs a part in its own process and returns its rows.

    Raises:
        Crashed: if it crashes or takes too long.
    """
    command = [sys.executable, "-m", "annulus", "check-gpu", "--part", name]
    try:
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PART_SECONDS)
    except subprocess.TimeoutExpired:
        raise Crashed(f"did not end in {PART_SECONDS:.0f} s") from None
    if ended.returncode:
        raise Crashed(f"ended with status {ended.returncode}; its error is printed above")
    return [CheckResult(*row) for row in json.loads(ended.stdout.splitlines()[-1])]


def machine() -> dict[str, str]:
    """Key of the rows: device, driver, versions and code."""
    real = torch.cuda.is_available()
    return {
        "device": torch.cuda.get_device_name() if real else "pretended",
        "driver": driver() if real else "none",
        "cuda": str(torch.version.cuda),
        "torch": torch.__version__,
        "triton": import_module("triton").__version__ if find_spec("triton") else "not installed",
        "code": hash_code(Path(__file__)),
    }


def driver() -> str:
    """Version of NVIDIA's driver."""
    try:
        words = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.check_output(words, text=True).split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown"


def read_done(out: Path, key: Mapping[str, str]) -> dict[str, Any]:
    """Reads the parts of a file of this machine and code; empty for another machine or code."""
    try:
        content = json.loads(out.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{out} cannot be read ({error}); remove it, or name another file by --out") from error
    if not isinstance(content, dict) or content.get("machine") != key:
        return {}
    return content["parts"]


def table(key: Mapping[str, str], done: Mapping[str, Any]) -> str:
    """Text of all rows, with the counts of verdicts in the last line."""
    rows = [CheckResult(*row) for part in done.values() for row in part["rows"]]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [", ".join(f"{name} {value}" for name, value in key.items() if name != "code")]
    lines += ["  ".join(f"{row[column]:<{widths[column]}}" for column in range(3)) + f"  {row.used}" for row in rows]
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in (WRONG, SLOW, RIGHT, FAST)}
    return "\n".join([line.rstrip() for line in lines] + [", ".join(f"{n} {verdict}" for verdict, n in counts.items())])
