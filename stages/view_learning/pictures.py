"""Generators and test images -> a picture of each generator's two views, and the generators' learning curves."""

import argparse
from collections.abc import Mapping
from typing import Any

import torch

from annulus.device.rng import generator
from annulus.files.images import load_images
from annulus.files.results import write_bytes, write_table
from annulus.files.sheets import png
from annulus.files.store import squares
from annulus.views.learned import LearnedSplit
from annulus.views.splits import ColourSplit
from annulus_lab.pipeline.stage import Results, run_resolved
from annulus_lab.studies.view_learning.curves import over_steps, read_curves
from annulus_lab.studies.view_learning.view_grid import GeneratedViews, grid

PATHS = ["images", "generators", "views", "curves"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    test, seed = load_images(paths.images / "test.safetensors").images, settings["seeds"][0]
    images = squares(test, torch.randperm(len(test), generator=generator(seed, "pictures"))[: settings["shown"]])
    seen = images.float() / 255
    splits = {space: ColourSplit(space) for space in settings["spaces"]}
    splits |= {
        name: LearnedSplit.of(paths.generators / name / f"{seed}.safetensors") for name in settings["generators"]
    }
    write_bytes(paths.views, png(grid(images, [GeneratedViews(name, split(seen)) for name, split in splits.items()])))
    curves = {name: read_curves(paths.generators / name / "curves.json") for name in settings["generators"]}
    write_table(paths.curves, over_steps(curves), columns=["series", "step", "shared_nats", "classified_nats"])
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
