"""Shared parts of all stage scripts: arguments, parameters, one-sentence errors, results."""

import argparse
import logging
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from annulus.config.file import load_params
from annulus.config.resolved import read_settings
from annulus.errors import InputError
from annulus.files.results import Metrics, write_metrics, write_seeds, write_table
from annulus.pipeline import provenance
from annulus.pipeline.edited import Inputs
from annulus.pipeline.revision import compared_again
from annulus.running.checkout import first
from annulus.running.checkpoint import clear

FIRST_SPEAKS_SECONDS = 10.0  # for the first of several processes to print its error and end


@dataclass(frozen=True)
class Results:
    """The numbers of a stage, and for a stage that trains, one row per epoch (it has a column `epoch`).

    Of a stage with seeds, `seeds` holds the numbers of each instead, and so does its file.
    """

    metrics: Metrics
    history: Sequence[Metrics] = field(default_factory=list)
    seeds: Mapping[int, Metrics] = field(default_factory=dict)
    written: Callable[[], None] = lambda: None  # called when the files are there: a kill before then loses nothing

    @classmethod
    def of_seeds(
        cls,
        seeds: Mapping[int, Metrics],
        histories: Mapping[int, Sequence[Metrics]] | None = None,
        written: Callable[[], None] = lambda: None,
    ) -> Self:
        """Each seed's numbers and rows; a history's first column is the seed."""
        rows = [{"seed": seed} | row for seed, history in (histories or {}).items() for row in history]
        return cls({}, rows, seeds, written)


Main = Callable[[Any, argparse.Namespace], Results]


def run_stage(
    main: Main,
    reads: Sequence[str],
    paths: Sequence[str],
    argv: Sequence[str] | None = None,
    tracked: bool = True,
) -> None:
    """Run a stage: check params.yaml, call `main(params, paths)`, write its results.

    `reads` are the parameters in dvc.yaml's own spelling; `main` gets just these, under the same names. `paths` become
    required arguments: `features` is `--features PATH`. Where `metrics` is among them, the metrics are written there,
    and the history to `history`. A user's mistake ends in one sentence on stderr and exit status 1, and so does an edit
    of the parameters or of the code while the stage runs. Machine and time are recorded of a stage that is `tracked`,
    which every stage but the check is.
    """

    def load(arguments: argparse.Namespace) -> Mapping[str, Any]:
        if _of_dvc_exp_run():
            compared_again(arguments.params)
        everything = load_params(arguments.params)
        return {name: everything.get(name) for name in reads}

    parser = parser_of(main, paths)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    arguments = parser.parse_args(argv)
    _run(main, load, arguments, arguments.params, reads, tracked)


def run_resolved(main: Main, paths: Sequence[str], argv: Sequence[str] | None = None) -> None:
    """`run_stage` of a study: `main(settings, paths)`; `--settings PATH` is a file that `write_settings` wrote."""

    def load(arguments: argparse.Namespace) -> Mapping[str, Any]:
        return read_settings(arguments.settings)

    arguments = parser_of(main, [*paths, "settings"]).parse_args(argv)
    _run(main, load, arguments, arguments.settings)


def parser_of(main: Callable[..., object], paths: Sequence[str]) -> argparse.ArgumentParser:
    """A required argument for each path; the help is the docstring of main's module."""
    parser = argparse.ArgumentParser(description=sys.modules[main.__module__].__doc__, allow_abbrev=False)
    for name in paths:
        parser.add_argument(f"--{name}", type=Path, required=True)
    return parser


def _run(
    main: Main,
    load: Callable[[argparse.Namespace], Mapping[str, Any]],
    arguments: argparse.Namespace,
    params: Path,
    reads: Sequence[str] | None = None,
    tracked: bool = True,
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    with one_sentence():
        inputs = Inputs(Path(sys.modules[main.__module__].__file__), params, reads)
        given = load(arguments)
        if tracked and "DVC_STAGE" in os.environ:
            inputs.refuse_other_choices()
        results = main(given, arguments)
        inputs.refuse_edits()
        _write(results, arguments)
    if tracked:
        provenance.record(main, [path for name, path in vars(arguments).items() if name not in ("params", "settings")])


def _write(results: Results, arguments: argparse.Namespace) -> None:
    if "metrics" in arguments and results.seeds:
        write_seeds(arguments.metrics, results.seeds)
    elif "metrics" in arguments:
        write_metrics(arguments.metrics, results.metrics)
    if "history" in arguments:
        write_table(arguments.history, results.history, ("seed", "epoch"))
    clear()
    results.written()


@contextmanager
def one_sentence() -> Iterator[None]:
    """A user's mistake ends the process with one sentence on stderr and status 1."""
    try:
        yield
    except InputError as error:
        if not first():  # mostly the first says the same, and torchrun stops all others once one has ended
            time.sleep(FIRST_SPEAKS_SECONDS)
        raise SystemExit(f"ERROR: {error}{_left_by_dvc()}") from None


def _left_by_dvc() -> str:
    """A line for a mistake in `dvc exp run`, whose values stay for the next run to read."""
    if not _of_dvc_exp_run():
        return ""
    return "\nWhat `-S` set stays in params.yaml: set it right in the next run, or `make restore`"


def _of_dvc_exp_run() -> bool:
    """Returns True if the working tree's params.yaml is the run's; a queued run has a folder of its own."""
    return "DVC_EXP_BASELINE_REV" in os.environ and ".dvc" not in Path.cwd().parts
