"""What every stage script shares: its arguments, its parameters, one-sentence errors, its results."""

import argparse
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annulus.config.file import load_params
from annulus.config.study import OwnStudy, Study
from annulus.errors import InputError
from annulus.files.results import Number, write_metrics, write_table
from annulus.pipeline import provenance, tracking

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class Results:
    """The numbers of a stage, and for a stage that trains, one row per epoch (its first column is `epoch`)."""

    metrics: Mapping[str, Number]
    history: Sequence[Mapping[str, Number]] = field(default_factory=list)
    written: Callable[[], None] = lambda: None  # called when the files are there: a kill before then loses nothing


Main = Callable[[Mapping[str, Any], argparse.Namespace], Results]
StudyMain = Callable[[Any, argparse.Namespace], Results]


def run_stage(main: Main, reads: Sequence[str], paths: Sequence[str], argv: Sequence[str] | None = None) -> None:
    """Run a stage: check params.yaml, call `main(params, paths)`, write and track what it returns.

    `reads` are the parameters in dvc.yaml's own spelling; `main` gets just these, under the same names.
    `paths` become required arguments: `features` is `--features PATH`. Where `metrics` is among them,
    the metrics are written there, and the history to `history`.
    A user's mistake ends in one sentence on stderr and exit status 1.
    """
    arguments = _arguments(main, paths).parse_args(argv)
    with _one_sentence():
        everything = load_params(arguments.params)
        params = {name: everything.get(name) for name in reads}
        results = main(params, arguments)
        _write(results, arguments)
    provenance.record(main, _paths(arguments))
    # A section does not say which of its siblings it is: the selectors do.
    choices = {name: everything.get(name) for name in re.findall(r"\$\{(\w+)\}", " ".join(reads))}
    tracking.record(choices | params, results.metrics, results.history)


def run_study(
    main: StudyMain,
    paths: Sequence[str],
    items: Sequence[str] = (),
    argv: Sequence[str] | None = None,
    of_root: bool = True,
) -> None:
    """Run a stage of a study: `run_stage` with `main(study, arguments)`; `--study PATH` is the study's own params.yaml.

    `items` become required arguments too, of text: what one stage of a matrix is about. A study `of_root` has variants
    of the root's params.yaml (`Study`), another one nothing but its own settings (`OwnStudy`).
    """
    parser = _arguments(main, [*paths, "study"])
    for name in items:
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args(argv)
    with _one_sentence():
        study = Study(arguments.params, arguments.study) if of_root else OwnStudy(arguments.study)
        results = main(study, arguments)
        _write(results, arguments)
    provenance.record(main, _paths(arguments))
    shown = {name: getattr(arguments, name) for name in items}
    tracking.record({**study.params.model_dump(), **shown}, results.metrics, results.history)


def _arguments(main: Main | StudyMain, paths: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=sys.modules[main.__module__].__doc__)
    for name in paths:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    return parser


def _write(results: Results, arguments: argparse.Namespace) -> None:
    if "metrics" in arguments:
        write_metrics(arguments.metrics, results.metrics)
    if "history" in arguments:
        write_table(arguments.history, results.history)
    results.written()


def _paths(arguments: argparse.Namespace) -> list[Path]:
    return [path for path in vars(arguments).values() if isinstance(path, Path)]


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        first = os.environ.get("RANK", "0") == "0"  # of several processes one says it
        raise SystemExit(f"ERROR: {error}" if first else 1) from None
