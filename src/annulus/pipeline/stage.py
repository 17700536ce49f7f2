"""What every stage script shares: its arguments, its parameters, one-sentence errors, its results."""

import argparse
import json
import logging
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from annulus.config.file import load_params
from annulus.config.resolved import read_settings
from annulus.config.study import MainStudy, OwnStudy, Study
from annulus.errors import InputError
from annulus.files.results import Metrics, Number, write_metrics, write_seeds, write_table, write_text
from annulus.pipeline import provenance, tracking

FIRST_SPEAKS_SECONDS = 10.0  # what the first of several processes may take to say its mistake and put its metrics back


@dataclass(frozen=True)
class Results:
    """The numbers of a stage, and for a stage that trains, one row per epoch (it has a column `epoch`).

    Of a stage with seeds, `seeds` holds the numbers of each; its file is by seed, and `metrics` are their means.
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
        return cls(_means(list(seeds.values())), rows, seeds, written)


def _means(of_seeds: Sequence[Metrics]) -> dict[str, Number]:
    """The mean of each number that all seeds have; of text, what they agree in."""
    means: dict[str, Number] = {}
    for name, first in of_seeds[0].items():
        values = [metrics.get(name) for metrics in of_seeds]
        if all(value == first for value in values):
            means[name] = first
        elif not any(value is None or isinstance(value, str) for value in values):
            means[name] = statistics.fmean(values)
    return means


Main = Callable[[Any, argparse.Namespace], Results]
Loaded = tuple[Any, Mapping[str, Any]]  # what `main` gets, and what the tracker shows of it


def run_stage(
    main: Main,
    reads: Sequence[str],
    paths: Sequence[str],
    argv: Sequence[str] | None = None,
    tracked: bool = True,
) -> None:
    """Run a stage: check params.yaml, call `main(params, paths)`, write and track what it returns.

    `reads` are the parameters in dvc.yaml's own spelling; `main` gets just these, under the same names.
    `paths` become required arguments: `features` is `--features PATH`. Where `metrics` is among them,
    the metrics are written there, and the history to `history`.
    A user's mistake ends in one sentence on stderr and exit status 1. A stage that makes no number is not `tracked`.
    """

    def load(arguments: argparse.Namespace) -> Loaded:
        everything = load_params(arguments.params)
        params = {name: everything.get(name) for name in reads}
        # A section does not say which of its siblings it is: the selectors do.
        choices = {name: everything.get(name) for name in re.findall(r"\$\{(\w+)\}", " ".join(reads))}
        return params, choices | params

    parser = _parser(main, paths)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    _run(main, load, parser.parse_args(argv), tracked)


def run_resolved(main: Main, paths: Sequence[str], argv: Sequence[str] | None = None) -> None:
    """`run_stage` of a study: `main(settings, paths)`; `--settings PATH` is a file that `write_settings` wrote."""

    def load(arguments: argparse.Namespace) -> Loaded:
        settings = read_settings(arguments.settings)
        return settings, {"settings": arguments.settings.stem} | settings

    _run(main, load, _parser(main, [*paths, "settings"]).parse_args(argv))


def write_settings(
    main: Callable[[Any], Mapping[str, Any]], study: type[OwnStudy], argv: list[str] | None = None
) -> None:
    """Write a study's resolved settings: `main(study)` gives the content of each file by its name.

    It takes a second, makes no number and is not tracked.
    """
    files = ["params", "study"] if study in (Study, MainStudy) else ["study"]
    arguments = _parser(main, [*files, "settings"]).parse_args(argv)
    with _one_sentence():
        given = (getattr(arguments, name) for name in files)
        for name, content in main(study(*given)).items():
            text = json.dumps(content, indent=2, allow_nan=False)
            write_text(arguments.settings / f"{name}.json", text + "\n")


def _parser(main: Main, paths: Sequence[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=sys.modules[main.__module__].__doc__, allow_abbrev=False)
    for name in paths:
        parser.add_argument(f"--{name}", type=Path, required=True)
    return parser


def _run(
    main: Main, load: Callable[[argparse.Namespace], Loaded], arguments: argparse.Namespace, tracked: bool = True
) -> None:
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    paths = [path for name, path in vars(arguments).items() if name not in ("params", "settings")]
    with _one_sentence(), _committed_numbers(paths):
        tracking.recorded()  # refuses an unknown word before the work
        given, shown = load(arguments)
        results = main(given, arguments)
        _write(results, arguments)
    if tracked:
        provenance.record(main, paths)
        tracking.record(shown, results.metrics, results.history, results.seeds)


def _write(results: Results, arguments: argparse.Namespace) -> None:
    if "metrics" in arguments and results.seeds:
        write_seeds(arguments.metrics, results.seeds)
    elif "metrics" in arguments:
        write_metrics(arguments.metrics, results.metrics)
    if "history" in arguments:
        write_table(arguments.history, results.history)
    results.written()


@contextmanager
def _committed_numbers(paths: Sequence[Path]) -> Iterator[None]:
    """DVC deletes what a stage has in git before the stage starts: one that fails puts it back."""
    try:
        yield
    except BaseException:  # an interrupt as well
        for path in paths:
            if tracking.first() and path.suffix in (".json", ".csv", ".png") and not path.exists():
                tracking.git("checkout", "--", str(path))
        raise


@contextmanager
def _one_sentence() -> Iterator[None]:
    try:
        yield
    except InputError as error:
        if not tracking.first():  # mostly the first says the same, and torchrun stops all others once one has ended
            time.sleep(FIRST_SPEAKS_SECONDS)
        raise SystemExit(f"ERROR: {error}") from None
