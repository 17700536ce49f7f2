"""`annulus check-gpu`: is this GPU right and fast with annulus, in ten minutes, part by part.

Each part runs in a process of its own, so that a crash costs no other part, and its rows are in the file as soon as it
ends. The same command goes on after a crash or when time was up: a part that ended on this device, with these versions
and this code, does not run again. The exit status is 1 where anything is wrong, or parts are left.
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
from annulus.gpu import agreement, bits, compiled, speed
from annulus.gpu.row import FAST, RIGHT, SLOW, WRONG, Row
from annulus.gpu.runs import METHODS, Sizes
from annulus.running.code import hash_code

PARTS: Mapping[str, Callable[[torch.device, Sizes], Iterable[Row]]] = {
    "kernels": compiled.part,
    "agreement": agreement.part,
    "selection": speed.selection,
    **{f"{method} {stem}": partial(speed.steps, method, stem) for stem in ("cifar", "imagenet") for method in METHODS},
    "shards": speed.shards,
    "bits": bits.part,
}
SECONDS, PART_SECONDS = 600.0, 150.0  # of all parts; of one, before it is given up


def main(argv: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(prog="annulus check-gpu", description=__doc__, allow_abbrev=False)
    parser.add_argument("--out", type=Path, default=Path("check-gpu.json"), help="default: check-gpu.json")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="after which no part starts (default: 600)")
    parser.add_argument("--part", choices=PARTS, help=argparse.SUPPRESS)
    arguments = parser.parse_args(argv)
    # The bits of a product depend on the memory that cuBLAS gets, which it asks for once in a process.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    if not torch.cuda.is_available():
        raise SystemExit(
            f"ERROR: torch {torch.__version__} sees no GPU here; `nvidia-smi` tells whether the driver does, and "
            "torch.version.cuda whether this torch was built for one"
        )
    if arguments.part is not None:
        print(json.dumps([*PARTS[arguments.part](pick_device(), Sizes())]))
        return
    sound = check(arguments.out, arguments.seconds, in_own_process)
    raise SystemExit(not sound)


def check(out: Path, seconds: float, run: Callable[[str], list[Row]]) -> bool:
    """Run what is left of the parts, write each as it ends, print the table; returns whether all ran, none wrong."""
    until, key = time.monotonic() + seconds, machine()
    done = read_done(out, key)
    for name in PARTS:
        if (name not in done or "crashed" in done[name]) and time.monotonic() < until:
            print(f"{name} ...", file=sys.stderr, flush=True)
            started = time.monotonic()
            try:
                part = {"rows": run(name)}
            except Crashed as crash:
                part = {"rows": [Row(name, str(crash), WRONG)], "crashed": True}
            done[name] = {"seconds": round(time.monotonic() - started, 1), **part}
            write_text(out, json.dumps({"machine": key, "parts": done}, indent=1) + "\n")
    print(table(key, done))
    left = [name for name in PARTS if name not in done]
    if left:
        print(f"left: {', '.join(left)}; the same command goes on")
    return not left and not any(Row(*row).verdict == WRONG for part in done.values() for row in part["rows"])


class Crashed(Exception):
    """A part did not end by itself."""


def in_own_process(name: str) -> list[Row]:
    """The rows of a part.

    Raises:
        Crashed: when it crashes, or takes too long.
    """
    command = [sys.executable, "-m", "annulus", "check-gpu", "--part", name]
    try:
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=PART_SECONDS)
    except subprocess.TimeoutExpired:
        raise Crashed(f"did not end in {PART_SECONDS:.0f} s") from None
    if ended.returncode:
        raise Crashed(f"ended with status {ended.returncode}; its own message was shown as it ended")
    return [Row(*row) for row in json.loads(ended.stdout.splitlines()[-1])]


def machine() -> dict[str, str]:
    """Device, driver, versions and code: rows of others are not those of this machine."""
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
    """The parts of a file that are of this machine and code; none of another file."""
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
    """All rows, and in the last line how many are wrong or slow."""
    rows = [Row(*row) for part in done.values() for row in part["rows"]]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    lines = [", ".join(f"{name} {value}" for name, value in key.items() if name != "code")]
    lines += ["  ".join(f"{row[column]:<{widths[column]}}" for column in range(3)) + f"  {row.used}" for row in rows]
    counts = {verdict: sum(row.verdict == verdict for row in rows) for verdict in (WRONG, SLOW, RIGHT, FAST)}
    return "\n".join([line.rstrip() for line in lines] + [", ".join(f"{n} {verdict}" for verdict, n in counts.items())])
