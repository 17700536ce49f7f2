"""Digits and backgrounds -> one packed file, and a picture of videos and second views."""

import argparse
from collections.abc import Mapping
from typing import Any

from annulus.files.results import write_bytes
from annulus.files.sheets import png
from annulus_lab.config.params import filled
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.moving_digits.digit_images import make_images, save_images
from annulus_lab.studies.moving_digits.digits_params import WorldParams
from annulus_lab.studies.moving_digits.film_strips import film_strips
from annulus_lab.studies.moving_digits.moving_digits import World

PATHS = ["images", "strips"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    # The first seed draws the images, so that all runs have the same ones.
    params, seed = filled(WorldParams, settings["world"]), settings["seeds"][0]
    train, test = make_images(params, seed)
    save_images(paths.images, (train, test))
    write_bytes(paths.strips, png(film_strips(World(params, train), settings["sharings"], seed)))
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
