"""Theorems with the ideal critic: bias and variance of NCE and CNCE, and the case that breaks the bound."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.estimators.estimators_params import TheoremsParams
from annulus_lab.studies.estimators.theorems import theorem_metrics

PATHS = ["metrics"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params = filled(TheoremsParams, settings["params"])
    return Results(theorem_metrics(params, settings["seeds"][0]) | {"scale": settings["scale"]})


if __name__ == "__main__":
    run_resolved(main, PATHS)
