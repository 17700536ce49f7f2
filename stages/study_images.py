"""Prepare the images of a study, by its own data set and scale -> one packed file per split."""

import argparse

import _path  # noqa: F401  this checkout's src first

from annulus.config.study import Study
from annulus.datasets.prepare import prepare_images, save_prepared
from annulus.pipeline.stage import Results, run_study

READS = ["datasets", "scales"]
OWN = ["scale", "seeds", "defaults", "scales"]
PATHS = ["images"]


def main(study: Study, paths: argparse.Namespace) -> Results:
    # The first seed draws the images and splits them: all runs of a study see the same ones.
    params = study.variant("defaults", {}, study.params.seeds[0])
    dataset, scale = params.get("datasets.${dataset}"), params.get("scales.${scale}.prepare")
    prepared = prepare_images(params.dataset, dataset, scale, params.seed)
    save_prepared(paths.images, prepared)
    return Results(prepared.metrics())


if __name__ == "__main__":
    run_study(main, PATHS)
