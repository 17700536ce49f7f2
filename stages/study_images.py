"""Prepares the images of a study, by its own data set and scale -> one packed file per split."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.datasets.parts import save_prepared
from annulus.datasets.prepare import packing, prepare_images
from annulus.errors import InputError
from annulus_lab.config.resolved import IMAGES, values
from annulus_lab.pipeline.stage import Results, run_resolved

PATHS = ["images"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    # The first seed draws and splits the images, so that all runs of a study have the same ones.
    seeds, dataset, params, scale = values(settings, IMAGES).values()
    with packing(dataset, params) as shards:
        prepared = prepare_images(dataset, params, scale, seeds[0], shards)
        if not prepared.train.classes:
            raise InputError(
                f"dataset: {dataset}: its images have no class, and a study compares accuracies; give it images in "
                "class folders, or train on these images with the main line"
            )
        save_prepared(paths.images, prepared)
    return Results(prepared.metrics())


if __name__ == "__main__":
    run_resolved(main, PATHS)
