"""One view generator: the training images -> its weights for each seed, and the curves of its learning."""

import argparse
import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from annulus.compute.device import pick_device
from annulus.compute.workers import each_seed
from annulus.config.resolved import PRETRAIN, values
from annulus.files.images import load_images
from annulus.files.results import atomic_write
from annulus.generators.params import GeneratorParams
from annulus.generators.trained import trained
from annulus.pipeline.stage import Results, run_resolved
from annulus.views.learned import save_generator

PATHS = ["images", "generator"]


def main(settings: Mapping[str, Any], paths: argparse.Namespace) -> Results:
    params, seen = GeneratorParams.model_validate(settings["generator"]), values(settings["seen"], PRETRAIN)
    images, device = load_images(paths.images / "train.safetensors"), pick_device()
    make = partial(trained, params, seen, images, device=device)
    found = each_seed(make, settings["seeds"], device)
    for seed, (generator, _) in found.items():
        save_generator(paths.generator / f"{seed}.safetensors", generator)
    with atomic_write(paths.generator / "curves.json") as temporary:
        temporary.write_text(json.dumps({seed: curve for seed, (_, curve) in found.items()}) + "\n")
    return Results({})


if __name__ == "__main__":
    run_resolved(main, PATHS)
