"""Shared parts of all stage scripts: arguments, parameters, errors in one sentence, results."""

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

from annulus.errors import InputError
from annulus.files.results import Metrics, write_metrics, write_seeds, write_table
from annulus.running.checkout import first
from annulus.running.checkpoint import clear
from annulus_lab.config.file import load_params
from annulus_lab.config.resolved import read_settings
from annulus_lab.pipeline import provenance
from annulus_lab.pipeline.edited import StageInputs, main_code, refuse_other_code, study_code
from annulus_lab.pipeline.revision import RUN_OUTPUTS, compared_again

CODE = Path("data/main/code")
FIRST_SPEAKS_SECONDS = 10.0  # for the first of several processes to print its error and end


@dataclass(frozen=True)
class Results:
    """Numbers of a stage; a stage that trains adds one row per epoch, with a column `epoch`.

    A stage with seeds fills `seeds` in place of `metrics`, and its file holds the numbers by seed. A stage with several
    targets uses their names as the keys.
    """

    metrics: Metrics
    history: Sequence[Metrics] = field(default_factory=list)
    seeds: Mapping[int | str, Metrics] = field(default_factory=dict)
    written: Callable[[], None] = lambda: None  # called after the files are written: an earlier kill loses nothing

    @classmethod
    def by_seed(
        cls,
        seeds: Mapping[int | str, Metrics],
        histories: Mapping[int, Sequence[Metrics]] | None = None,
        written: Callable[[], None] = lambda: None,
    ) -> Self:
        """Results of numbers and rows by seed; the seed is the history's first column."""
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
    """Runs a stage: checks params.yaml, calls `main(params, paths)`, writes its results.

    `reads` are the parameters in dvc.yaml's spelling; `main` gets only these, under the same names. `paths` become
    required arguments: `features` is `--features PATH`. The metrics go to the path `metrics`, the history to `history`.
    A user's mistake ends in one sentence on stderr and exit status 1. So does an edit of the parameters or of the code
    while the stage runs. A `tracked` stage records machine and time; only the stage `check` is not tracked.
    """

    def load(arguments: argparse.Namespace) -> Mapping[str, Any]:
        if _in_dvc_exp_run():
            outputs = [path for path in Path("metrics").rglob("*") if RUN_OUTPUTS.fullmatch(path.as_posix())]
            for path in (arguments.params, *outputs):
                compared_again(path)
        everything = load_params(arguments.params)
        if (code := _code_file()) is not None:
            refuse_other_code(script, main_code(script, everything, reads), code.read_text(encoding="utf-8").strip())
        return {name: everything.get(name) for name in reads}

    script = _script(main)
    parser = path_parser(main, paths)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    arguments = parser.parse_args(argv)
    _run(main, load, arguments, arguments.params, reads, tracked)


def run_resolved(main: Main, paths: Sequence[str], argv: Sequence[str] | None = None) -> None:
    """Runs a stage of a study: `main(settings, paths)`; `--settings PATH` is a file of `write_settings`."""

    def load(arguments: argparse.Namespace) -> Mapping[str, Any]:
        settings = read_settings(arguments.settings)
        if "code" in settings:
            refuse_other_code(_script(main), study_code(_script(main), settings), settings["code"])
        return settings

    arguments = path_parser(main, [*paths, "settings"]).parse_args(argv)
    _run(main, load, arguments, arguments.settings)


def path_parser(main: Callable[..., object], paths: Sequence[str]) -> argparse.ArgumentParser:
    """Parser with a required argument for each path; its help is the docstring of main's module."""
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
        inputs = StageInputs(_script(main), params, reads)
        values = load(arguments)
        if tracked and "DVC_STAGE" in os.environ:
            inputs.refuse_other_choices()
        paths = [path for name, path in vars(arguments).items() if name not in ("params", "settings")]
        before = provenance.marks(paths)
        results = main(values, arguments)
        inputs.refuse_edits()
        _write(results, arguments)
    if tracked:
        provenance.record(main, paths, before)


def _script(main: Main) -> Path:
    return Path(sys.modules[main.__module__].__file__).resolve()


def _code_file() -> Path | None:
    """File with the digest of the running stage's code, which `check` wrote; None if DVC runs no main-line stage."""
    file = CODE / os.environ.get("DVC_STAGE", "")
    return file if file.is_file() else None


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
    """Ends the process with one sentence on stderr and status 1 after a user's mistake."""
    try:
        yield
    except InputError as error:
        if not first():  # the first process mostly prints the same, and torchrun then stops the others
            time.sleep(FIRST_SPEAKS_SECONDS)
        raise SystemExit(f"ERROR: {error}{_restore_hint()}") from None


def _restore_hint() -> str:
    """Line for a mistake in `dvc exp run`: its values stay in params.yaml, and the next run reads them."""
    if not _in_dvc_exp_run():
        return ""
    return "\nWhat `-S` set stays in params.yaml: set it right in the next run, or `make restore`"


def _in_dvc_exp_run() -> bool:
    """Returns True if `dvc exp run` changed this working tree's params.yaml; a queued run has its own folder."""
    return "DVC_EXP_BASELINE_REV" in os.environ and ".dvc" not in Path.cwd().parts
