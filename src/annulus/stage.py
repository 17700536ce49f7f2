"""What every stage script shares: its arguments, its parameters, one-sentence errors, its results."""

import argparse
import logging
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from annulus import tracking
from annulus.errors import InputError
from annulus.params_file import load_params
from annulus.results import Number, write_metrics, write_table

log = logging.getLogger("annulus")


@dataclass(frozen=True)
class Results:
    """The numbers of a stage, and for a stage that trains, one row per epoch (its first column is `epoch`)."""

    metrics: Mapping[str, Number]
    history: Sequence[Mapping[str, Number]] = field(default_factory=list)
    written: Callable[[], None] = lambda: None  # called when the files are there: a kill before then loses nothing


Main = Callable[[Mapping[str, Any], argparse.Namespace], Results]


def run_stage(main: Main, reads: Sequence[str], paths: Sequence[str], argv: Sequence[str] | None = None) -> None:
    """Run a stage: check params.yaml, call `main(params, paths)`, write and track what it returns.

    `reads` are the parameters in dvc.yaml's own spelling; `main` gets just these, under the same names.
    `paths` become required arguments: `features` is `--features PATH`. Where `metrics` is among them,
    the metrics are written there, and the history to `history`.
    A user's mistake ends in one sentence on stderr and exit status 1.
    """
    parser = argparse.ArgumentParser(description=sys.modules[main.__module__].__doc__)
    for name in paths:
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--params", type=Path, default=Path("params.yaml"))
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    try:
        everything = load_params(arguments.params)
        params = {name: everything.get(name) for name in reads}
        results = main(params, arguments)
        if "metrics" in paths:
            write_metrics(arguments.metrics, results.metrics)
        if "history" in paths:
            write_table(arguments.history, results.history)
        results.written()
    except InputError as error:
        raise SystemExit(f"ERROR: {error}") from None
    # A section does not say which of its siblings it is: the selectors do.
    choices = {name: everything.get(name) for name in re.findall(r"\$\{(\w+)\}", " ".join(reads))}
    tracking.record(choices | params, results.metrics, results.history)
