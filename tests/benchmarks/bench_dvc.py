"""DVC commands here and in DVC's own example project, in turn: `python tests/benchmarks/bench_dvc.py EXAMPLE`.

EXAMPLE is a checkout of https://github.com/iterative/example-get-started-experiments. The main line must have run here
(`make repro`). Commands are measured in CPU seconds, user and system, as medians of ROUNDS.

The benchmark also runs a whole `dvc exp run -S sampler=uniform` on a terminal, in a clone at scale tiny. It measures
the seconds outside of stages, until the first stage begins, and of the longest silence. With --bare it also measures
`make repro` of a bare clone and its installation.
"""

import argparse
import os
import re
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import torch
from timing import ROOT, write

ROUNDS = 3
COMMANDS = {
    "status": ["status"],
    "metrics_diff": ["metrics", "diff"],
    "params_diff": ["params", "diff"],
    "plots_show": ["plots", "show"],
    "exp_show": ["exp", "show", "--no-pager"],
}
IDLE = {"idle_repro": ["repro"], "idle_exp_run": ["exp", "run"]}  # the example cannot run these without its data
STUDIES = ("embedded_law", "cifar10_algorithms")  # one of four stages, one of 44
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")  # colours and movements of a terminal
TIMED_PYTHON = """#!/bin/sh
date +%s.%N >> "$STAGE_TIMES"
"{python}" "$@"
status=$?
date +%s.%N >> "$STAGE_TIMES"
exit $status
"""


def cpu_seconds(folder: Path, words: list[str]) -> float:
    """CPU seconds of a DVC command and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "dvc", *words], cwd=folder, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def medians(example: Path) -> dict[str, float]:
    """Median CPU seconds of each command: here, in the example, in studies."""
    turns = {f"{name}_example": (example, words) for name, words in COMMANDS.items()}
    turns |= {f"{name}_root": (ROOT, words) for name, words in (COMMANDS | IDLE).items()}
    for study in STUDIES:
        turns |= {f"{name}_{study}": (ROOT / "stages" / study, words) for name, words in COMMANDS.items()}
    seconds: dict[str, list[float]] = {name: [] for name in turns}
    for turn in range(ROUNDS + 1):
        for name, (folder, words) in turns.items():
            taken = cpu_seconds(folder, words)
            if turn > 0:
                seconds[name].append(taken)
    return {f"{name}_cpu_seconds": statistics.median(taken) for name, taken in seconds.items()}


def timed_lines(command: list[str], folder: Path, environment: dict[str, str]) -> list[tuple[float, str]]:
    """Lines that a command shows on a terminal, bars too, with the seconds since its start; the last is its end."""
    started, lines, (terminal, end) = time.monotonic(), [], os.openpty()
    process = subprocess.Popen(command, cwd=folder, env=environment, stdin=end, stdout=end, stderr=end)
    os.close(end)
    with suppress(OSError):  # Linux: the command has ended
        while chunk := os.read(terminal, 65536):
            text = ESCAPES.sub("", chunk.decode(errors="replace"))
            lines += [(time.monotonic() - started, line) for line in re.split(r"[\r\n]+", text) if line.strip()]
    os.close(terminal)
    if process.wait():
        raise SystemExit("\n".join(line for _, line in lines))
    return [*lines, (time.monotonic() - started, "")]


def exp_run(folder: Path) -> dict[str, float]:
    """Seconds of a whole experiment at scale tiny, in a clone whose main line has run."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    params, bin_folder, times = folder / "params.yaml", folder.parent / "bin", folder.parent / "times"
    params.write_text(re.sub("^scale: [a-z]*", "scale: tiny", params.read_text(), flags=re.MULTILINE))
    bin_folder.mkdir()
    (bin_folder / "python").write_text(TIMED_PYTHON.format(python=sys.executable))
    (bin_folder / "python").chmod(0o755)
    path = os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = os.environ | {"PATH": path, "STAGE_TIMES": str(times), "PYTHONUNBUFFERED": "1"}
    timed_lines(["dvc", "repro"], folder, environment)
    subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@localhost", "commit", "-qam", "tiny"], cwd=folder)
    times.unlink()
    lines = timed_lines(["dvc", "exp", "run", "-S", "sampler=uniform"], folder, environment)
    stamps = [float(line) for line in times.read_text().split()]
    stages = sum(end - begin for begin, end in zip(stamps[::2], stamps[1::2], strict=True))
    return {
        "exp_run_first_stage_seconds": next(at for at, line in lines if "Running stage" in line),
        "exp_run_seconds": lines[-1][0],
        "exp_run_outside_of_stages_seconds": lines[-1][0] - stages,
        "exp_run_longest_silence_seconds": max(
            b - a for (a, _), (b, _) in zip([(0.0, ""), *lines], lines, strict=False)
        ),
    }


def bare_repro(folder: Path) -> dict[str, float]:
    """Seconds of `make repro` of a bare clone: until its numbers stand on the screen, and until the prompt."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    lines = timed_lines(["make", "repro"], folder, dict(os.environ))
    numbers = next(at for at, line in lines if "knn_top1_percent" in line)
    begun = next(at for at, line in lines if "Running stage" in line)
    return {
        "make_repro_bare_installation_seconds": begun,
        "make_repro_bare_numbers_seconds": numbers,
        "make_repro_bare_prompt_after_numbers_seconds": lines[-1][0] - numbers,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", type=Path, nargs="?", help="a checkout of example-get-started-experiments")
    parser.add_argument("--bare", action="store_true", help="also `make repro` of a bare clone (minutes, several GB)")
    arguments = parser.parse_args()
    if arguments.example is None:
        print("bench_dvc: skipped; it needs a checkout of example-get-started-experiments as its argument")
        return
    numbers = medians(arguments.example)
    for name in COMMANDS:
        here, there = (numbers[f"{name}_{place}_cpu_seconds"] for place in ("root", "example"))
        numbers[f"{name}_times_example"] = here / there
    with tempfile.TemporaryDirectory() as folder:
        numbers |= exp_run(Path(folder, "exp"))
        if arguments.bare:
            numbers |= bare_repro(Path(folder, "bare"))
    shutil.rmtree(ROOT / "dvc_plots", ignore_errors=True)
    write("dvc", torch.device("cpu"), **numbers)


if __name__ == "__main__":
    main()
