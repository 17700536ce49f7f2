"""Images of one target -> packed training and test images."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.datasets.parts import save_prepared
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.transfer.prepared import prepare_target

PATHS = ["images"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    with prepare_target(settings) as prepared:
        save_prepared(paths.images, prepared)
    return Results(prepared.metrics())


if __name__ == "__main__":
    run_resolved(main, PATHS)
