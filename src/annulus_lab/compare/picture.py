"""`annulus picture`: the annulus around one image, from the main line's embeddings, as an SVG.

With --annealing it draws the candidate set of the same query at several epochs of training, all at one scale.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus.diagnostics.curve import read_curve
from annulus.diagnostics.measures import load_run
from annulus.diagnostics.membership import cave_for
from annulus.diagnostics.picture import annealing_svg, svg
from annulus.diagnostics.scene import build_moments, build_scene
from annulus.errors import InputError
from annulus.files.images import load_images
from annulus.files.results import check_folder, write_text
from annulus_lab.config.file import load_params
from annulus_lab.pipeline.stale import is_locked

DRAWN = ("uniform", "ball", "ring", "cave")


def main(argv: Sequence[str] | None = None) -> None:
    """Writes the SVG.

    Raises:
        InputError: when the snapshots are missing or belong to another run.
    """
    parser = argparse.ArgumentParser(prog="annulus picture", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository, where `dvc repro` has run")
    parser.add_argument("--svg", type=Path, required=True, help="the file to write")
    parser.add_argument("--annealing", action="store_true", help="draw the selected sampler's set at several epochs")
    arguments = parser.parse_args(argv)
    check_folder("--svg", arguments.svg)
    outputs = arguments.root / "data" / "main"
    params = load_params(arguments.root / "params.yaml")
    temperature = params.get("methods.${method}").temperature
    run = load_run(outputs / "snapshots" / f"{params.seeds[0]}.safetensors", temperature)
    if not is_locked(arguments.root, "pretrain", "data/main/snapshots"):
        raise InputError(
            "data/main/snapshots differs from dvc.lock; `dvc checkout` brings it if it was made here, `dvc repro` "
            "makes it otherwise"
        )
    labels = load_images(outputs / "images" / "train.safetensors").labels[run.images]
    samplers = dict(params.samplers)
    scene = build_scene(run, labels, {name: samplers[name] for name in DRAWN}, params.seeds[0])
    if arguments.annealing:
        curve = read_curve(arguments.root / "metrics" / "main" / "pretrain_history.csv", params.seeds[0])
        sampler = samplers[params.sampler]
        if params.sampler == "cave":
            sampler = cave_for(sampler, len(run.images), run.train_images)
        content = annealing_svg(build_moments(run, curve, labels, sampler, scene.query, params.seeds[0]))
    else:
        content = svg(scene)
    write_text(arguments.svg, content)
    print(f"{arguments.svg}: the annulus around one image")
