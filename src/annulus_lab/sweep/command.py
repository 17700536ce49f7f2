"""Trains all runs of a study in parallel; afterwards `dvc repro` of the study only writes its tables.

Each run's outcome goes into the store of the main checkout, .annulus/outcomes. A stopped sweep continues where its runs
stood. Two simultaneous sweeps share the runs.
"""

import argparse
import logging
import os
import shutil
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.running.checkpoint import not_written
from annulus.running.code import LIBRARY
from annulus_lab.pipeline.projects import repro
from annulus_lab.sweep.places import Executor, Local, Slurm
from annulus_lab.sweep.study_trials import alone, read_trials
from annulus_lab.sweep.watch import Watch

SWEEPS = Path(".annulus/sweeps")

log = logging.getLogger("annulus")


def main(argv: Sequence[str] | None = None) -> None:
    """Runs a sweep."""
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    arguments = _parser().parse_intermixed_args(argv)  # rows may stand after the options
    folder = (SWEEPS / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}").absolute()
    try:
        failures = sweep(arguments, folder)
    except InputError:
        with suppress(OSError):
            folder.rmdir()  # if it has no logs yet
        raise
    except KeyboardInterrupt:
        raise SystemExit("stopped; the same command goes on where the runs stand") from None
    if failures:
        raise SystemExit(
            "\n".join(["ERROR: the outcomes of the other runs are kept; failed:", *failures, f"({folder})"])
        )
    shutil.rmtree(folder, ignore_errors=True)


def sweep(arguments: argparse.Namespace, folder: Path) -> list[str]:
    """Runs a sweep with its logs and notes in a folder; returns a sentence for each failed run.

    Raises:
        InputError: when an argument does not fit this machine or study, or the workers cannot work.
    """
    share = arguments.gpus_per_worker
    if share is not None and not 0 < share <= 1:
        raise InputError(f"--gpus-per-worker {share:g}: a run uses one GPU at most; name 1, or a fraction such as 0.5")
    if arguments.workers is not None and arguments.workers < 1:
        raise InputError(f"--workers {arguments.workers}: name a number of processes, 1 or more")
    try:
        folder.mkdir(parents=True, exist_ok=True)  # submitit's own failure would be a traceback
    except OSError as error:
        raise not_written(folder, error) from error
    executor = _executor(arguments, folder)
    with alone(SWEEPS / "lock"):
        trials = read_trials(arguments.study, arguments.rows)
    # The workers' Python imports this code from any working directory.
    source = str(LIBRARY.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [source, os.environ.get("PYTHONPATH")]))
    watch = Watch(trials, folder, executor, os.getpid() if arguments.executor == "local" else None)
    workers = min(watch.slots * executor.tasks, len(watch.open))
    log.info(
        "%d runs, %d of them done; %d workers, logs in %s", len(trials), len(trials) - len(watch.open), workers, folder
    )
    start = time.monotonic()
    watch.run()
    if watch.seconds:
        duration = time.monotonic() - start
        percent = 100 * watch.seconds / (duration * workers)
        log.info(
            "%.0f s; the runs' own times add up to %.0f s: %.0f %% of the workers' time",
            duration,
            watch.seconds,
            percent,
        )
    if not watch.failed:
        log.info("`%s` writes the tables", repro(Path(arguments.study).name))
    return watch.failed


def _executor(arguments: argparse.Namespace, folder: Path) -> Executor:
    settings = dict(arguments.slurm)
    if arguments.executor == "slurm":
        return Slurm(folder, arguments.workers, arguments.gpus_per_worker, settings)
    if settings:
        raise InputError(f"--slurm {next(iter(settings))}= is for --executor slurm; name that too, or leave it out")
    return Local(folder, arguments.workers, arguments.gpus_per_worker)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="annulus sweep", description=__doc__, allow_abbrev=False)
    parser.add_argument("study", help="its name, such as algorithms")
    parser.add_argument("rows", nargs="*", default=[], metavar="ROW", help="rows or parts (default: all)")
    parser.add_argument("--executor", choices=["local", "slurm"], default="local", help="(default: local)")
    parser.add_argument(
        "--workers", type=int, help="processes at a time (default: here one a core or GPU, on Slurm one a run)"
    )
    parser.add_argument(
        "--gpus-per-worker",
        type=float,
        metavar="F",
        help="1, or a fraction (default: here 1 where there are GPUs, on Slurm 0)",
    )
    parser.add_argument(
        "--slurm",
        type=_setting,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="of a job: partition=gpu, time=240",
    )
    return parser


def _setting(text: str) -> tuple[str, Any]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, int(value) if value.isdecimal() and str(int(value)) == value else value  # account=0123 is a name
