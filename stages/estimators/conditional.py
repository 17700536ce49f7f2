"""NCE and CNCE of the two-dimensional toy: estimates by the share of the points that negatives come from."""

import argparse
import statistics
from collections.abc import Mapping
from typing import Any

import _path  # noqa: F401  this checkout's src first
import torch

from annulus.compute.workers import Pieces
from annulus.config.study import OwnStudy
from annulus.estimators.conditional import Conditional, Run
from annulus.estimators.params import ConditionalParams
from annulus.estimators.toys import SumOfGaussians
from annulus.files.results import Number, write_table
from annulus.pipeline.stage import Results, run_study

READS: list[str] = []
OWN = ["scale", "seeds", "scales.${scale}.conditional", "conditional"]
PATHS = ["points"]


def main(study: OwnStudy, paths: argparse.Namespace) -> Results:
    params, seeds = study.section("conditional", ConditionalParams), study.params.seeds
    measures = list(params.temperatures)
    pieces = Pieces("conditional", {"params": params, "seeds": seeds}, trained)
    found = dict(zip(measures, pieces.run(measures), strict=True))
    information = digits(SumOfGaussians().information)
    settings = {"seeds": len(seeds), "information_nats": information, "scale": study.params.scale}
    rows = [
        row(measure, percent, *(found[measure][law][place] for law in ("own", "uniform", "training"))) | settings
        for measure in measures
        for place, percent in enumerate(params.percents)
    ]
    write_table(paths.points, rows)
    return Results({}, written=pieces.done)


def trained(settings: Mapping[str, Any], measure: str) -> Mapping[str, Any]:
    """Estimates (shares, seeds) of trained critics, in nats.

    Of points that they have not seen, with their own negatives and with uniform ones; and of those trained on.
    """
    params, seeds = settings["params"], settings["seeds"]
    own = [percent for percent in params.percents for _ in seeds]
    runs = [Run(percent, seed) for percent in params.percents for seed in seeds]
    conditional = Conditional(SumOfGaussians(), runs, params, measure)
    conditional.train()
    unseen = conditional.points("unseen points")
    found = {
        "own": conditional.estimates(own, unseen),
        "uniform": conditional.estimates([100] * len(runs), unseen),
        "training": conditional.estimates(own),
    }
    return {law: torch.tensor(nats).view(-1, len(seeds)).tolist() for law, nats in found.items()}


def row(measure: str, percent: int, own: list[float], uniform: list[float], training: list[float]) -> dict[str, Number]:
    return {
        "measure": measure,
        "method": "NCE" if percent == 100 else "CNCE",
        "percent_closest": percent,
        "estimate_nats": digits(statistics.fmean(own)),
        "spread_nats": digits(deviation(own)),
        "uniform_nats": digits(statistics.fmean(uniform)),
        "uniform_spread_nats": digits(deviation(uniform)),
        "training_nats": digits(statistics.fmean(training)),
        "training_spread_nats": digits(deviation(training)),
    }


def deviation(values: list[float]) -> float:
    return statistics.stdev(values) if len(values) > 1 else 0.0


def digits(nats: float) -> str:
    """To four significant digits: these go down to millionths of a nat, which a table of nats would round away."""
    return f"{nats:.4g}"


if __name__ == "__main__":
    run_study(main, PATHS, of_root=False)
