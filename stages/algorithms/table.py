"""The algorithms' metrics -> one table, the papers' numbers beside those measured here."""

import argparse
import json
import statistics
from collections.abc import Mapping
from pathlib import Path

import _path  # noqa: F401  this checkout's src first

from annulus.config.study import Study
from annulus.errors import InputError
from annulus.files.results import Number, write_table
from annulus.pipeline.stage import Results, run_study

READS: list[str] = []
OWN = ["scale", "seeds", "defaults", "scales", "tables"]
PATHS = ["rows", "table"]


def main(study: Study, arguments: argparse.Namespace) -> Results:
    rows = []
    for name, table in study.content["tables"].items():
        methods = {method: entry | measured(arguments.rows, entry["row"]) for method, entry in table["methods"].items()}
        for method, found in methods.items():
            base = methods[found.get("base", table["base"])]
            gains = compared(found, base)
            rows.append({"table": name, "method": method, **gains, "scale": study.params.scale, **settings(found)})
    write_table(arguments.table, rows)
    here = f"{study.params.defaults['dataset']}, scale {study.params.scale}, {rows[0]['epochs']} epochs"
    print(
        f"\n{text(rows)}\n\nlinear probe, top-1, percent; paper: CIFAR-10; here: {here}, mean ± deviation over "
        f"{rows[0]['seeds']} seeds; gain: over the table's base method, in pairs by seed\n"
    )
    return Results({})


def measured(folder: Path, row: str) -> dict[str, Number]:
    path = folder / f"{row}.json"
    try:
        return json.loads(path.read_text())
    except (OSError, json.JSONDecodeError) as error:
        raise InputError(
            f"{path} is missing or not a metrics file ({error}); run `dvc repro stages/algorithms/dvc.yaml`"
        ) from error


def compared(found: Mapping[str, Number], base: Mapping[str, Number]) -> dict[str, Number]:
    """Paper and here, each with its gain over the base; here's gain is the mean over seeds, with its spread."""
    seeds = [name for name in found if name.startswith("linear_top1_seed")]
    gains = [found[name] - base[name] for name in seeds]
    known = found["top1_percent"] is not None
    return {
        "paper_percent": found["top1_percent"] if known else "",
        "paper_gain_percent": found["top1_percent"] - base["top1_percent"] if known else "",
        "here_percent": found["linear_top1_percent"],
        "here_spread_percent": found["linear_top1_spread_percent"],
        "here_gain_percent": statistics.fmean(gains),
        "here_gain_spread_percent": statistics.stdev(gains) if len(gains) > 1 else 0.0,
        "here_knn_percent": found["knn_top1_percent"],
        "bound_nats": found["bound_nats"],
        "ceiling_nats": found["ceiling_nats"],
    }


def settings(found: Mapping[str, Number]) -> dict[str, Number]:
    return {"epochs": found["epochs"], "seeds": found["seeds"]}


def text(rows: list[dict[str, Number]]) -> str:
    """The table for the eye: its main columns."""
    lines = [f"{'table':<18} {'method':<26}{'paper':>7}{'gain':>7}   {'here':>7}       {'gain':>7}"]
    for row in rows:
        paper, gain = (
            f"{row[name]:.1f}" if row[name] != "" else "" for name in ("paper_percent", "paper_gain_percent")
        )
        here = f"{row['here_percent']:>7.1f} ± {row['here_spread_percent']:<4.1f}"
        lines.append(
            f"{row['table']:<18} {row['method']:<26}{paper:>7}{gain:>7}   {here}{row['here_gain_percent']:>7.1f}"
            f" ± {row['here_gain_spread_percent']:.1f}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    run_study(main, PATHS)
