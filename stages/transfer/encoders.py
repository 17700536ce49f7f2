"""Encoders of one variant of the main line: the main line's images -> weights for each seed."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.transfer.trained_encoders import Encoders

PATHS = ["images", "encoders"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    encoders = Encoders(settings["run"], settings["trained"], settings["seeds"], paths.images, paths.encoders)
    encoders.write()
    return Results({}, written=encoders.done)


if __name__ == "__main__":
    run_resolved(main, PATHS)
