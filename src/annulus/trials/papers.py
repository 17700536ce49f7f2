"""A table of runs beside the papers' numbers, with gains over a base method."""

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.results import Number
from annulus.trials.outcomes import std_over_seeds


def beside_papers(tables: Mapping[str, Any], rows: Path, scale: str) -> list[dict[str, Number]]:
    """A row for every method of every table; `rows` is the folder of the runs' metrics.

    Raises:
        InputError: when a run's metrics are missing.
    """
    found = []
    for name, table in tables.items():
        methods = {method: entry | _measured(rows, entry["row"]) for method, entry in table["methods"].items()}
        for method, metrics in methods.items():
            base = methods[metrics.get("base", table["base"])]
            settings = {"scale": scale, "epochs": metrics["epochs"], "seeds": metrics["seeds"]}
            found.append({"table": name, "method": method, **compared(metrics, base), **settings})
    return found


def compared(found: Mapping[str, Number], base: Mapping[str, Number]) -> dict[str, Number]:
    """Paper and here, each with its gain over the base; here's gain is a mean over seeds, with its std."""
    seeds = [name for name in found if name.startswith("linear_top1_seed")]
    gains = [found[name] - base[name] for name in seeds]
    known = found["top1_percent"] is not None
    return {
        "paper_percent": found["top1_percent"] if known else "",
        "paper_gain_percent": found["top1_percent"] - base["top1_percent"] if known else "",
        "here_percent": found["linear_top1_percent"],
        "here_std_over_seeds_percent": found["linear_top1_std_over_seeds_percent"],
        "here_gain_percent": statistics.fmean(gains),
        "here_gain_std_over_seeds_percent": std_over_seeds(gains),
        "here_knn_percent": found["knn_top1_percent"],
        "bound_nats": found["bound_nats"],
        "ceiling_nats": found["ceiling_nats"],
    }


def as_text(rows: Sequence[Mapping[str, Number]]) -> str:
    """The table for the eye: its main columns."""
    lines = [f"{'table':<18} {'method':<26}{'paper':>7}{'gain':>7}   {'here':>7}       {'gain':>7}"]
    for row in rows:
        paper, gain = (
            f"{row[name]:.1f}" if row[name] != "" else "" for name in ("paper_percent", "paper_gain_percent")
        )
        here = f"{row['here_percent']:>7.1f} ± {row['here_std_over_seeds_percent']:<4.1f}"
        lines.append(
            f"{row['table']:<18} {row['method']:<26}{paper:>7}{gain:>7}   {here}{row['here_gain_percent']:>7.1f}"
            f" ± {row['here_gain_std_over_seeds_percent']:.1f}"
        )
    return "\n".join(lines)


def _measured(folder: Path, row: str) -> dict[str, Number]:
    path = folder / f"{row}.json"
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(
            f"{path} is missing or not a metrics file ({error}); run `dvc repro stages/algorithms/dvc.yaml`"
        ) from error
