"""The binary example: alpha-CPC and alpha-ML-CPC over m in closed form, and the same by simulation."""

import argparse

import _path  # noqa: F401  this checkout's src first
import torch

from annulus.bounds.alpha import mlcpc_lower_alpha
from annulus.compute.rng import generator
from annulus.config.study import OwnStudy
from annulus.estimators.binary import Moments, cpc_of_batch, mlcpc_of_batch, moments
from annulus.estimators.bounds import CPC, MLCPC, off_diagonal
from annulus.estimators.params import BinaryParams
from annulus.estimators.toys import IMPOSSIBLE, binary_pair
from annulus.files.results import Number, write_table
from annulus.pipeline.stage import Results, run_study

READS: list[str] = []
OWN = ["scale", "seeds", "scales.${scale}.binary", "binary"]
PATHS = ["points"]


def main(study: OwnStudy, paths: argparse.Namespace) -> Results:
    params, seed = study.section("binary", BinaryParams), study.params.seeds[0]
    rows = [row for m in params.candidates for row in at(params, m, seed)]
    write_table(paths.points, rows)
    return Results({})


def at(params: BinaryParams, m: int, seed: int) -> list[dict[str, Number]]:
    """Both bounds with batches of m pairs, at every alpha and at alpha_{m,m}, the least with a proven bound."""
    toy, draw = binary_pair(params.p), generator(seed, "binary", m)
    alphas: dict[Number, float] = {alpha: alpha for alpha in params.alphas} | {"lowest": mlcpc_lower_alpha(m, m)}
    names = {"CPC": (CPC, cpc_of_batch), "ML-CPC": (MLCPC, mlcpc_of_batch)}
    cells = {
        (name, label): (bound(alpha), moments(of_batch, m, alpha, params.p))
        for name, (bound, of_batch) in names.items()
        for label, alpha in alphas.items()
    }
    values = torch.zeros(params.simulations, len(cells), dtype=torch.float64)
    for simulation in range(params.simulations):
        x, y = toy.sample(m, draw)
        scores = torch.where((x @ y.T).double() > 0, 0.0, IMPOSSIBLE)  # the paper's critic: equal or not
        positive, negatives = scores.diagonal(), off_diagonal(scores)
        for column, (bound, _) in enumerate(cells.values()):
            values[simulation, column] = bound.estimate(positive, negatives)
    simulated = [Moments(*each) for each in zip(values.mean(dim=0).tolist(), values.var(dim=0).tolist(), strict=True)]
    return [
        {
            "series": f"{name}, lowest proven alpha" if label == "lowest" else f"{name}, alpha {label:g}",
            "bound": name,
            "alpha": label,
            "m": m,
            "value_nats": exact.mean,
            "information_nats": toy.information,
            "bias_nats": exact.mean - toy.information,
            "variance": exact.variance,
            "simulated_nats": drawn.mean,
            "simulated_variance": drawn.variance,
            "simulations": params.simulations,
        }
        for ((name, label), (_, exact)), drawn in zip(cells.items(), simulated, strict=True)
    ]


if __name__ == "__main__":
    run_study(main, PATHS, of_root=False)
