"""`annulus picture`: the annulus around one image, from the main line's embeddings, as an SVG.

With --annealing: the candidate set of the same query at several epochs of training, all at one scale.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from annulus.config.file import load_params
from annulus.diagnostics.curve import read_curve
from annulus.diagnostics.measures import load_run
from annulus.diagnostics.membership import cave_for
from annulus.diagnostics.picture import svg, svg_of_annealing
from annulus.diagnostics.scene import moments_of, scene_of
from annulus.errors import InputError
from annulus.files.images import load_images
from annulus.files.results import write_text
from annulus.pipeline.stale import is_locked


def main(argv: Sequence[str] | None = None) -> None:
    """Write the SVG.

    Raises:
        InputError: when there are no snapshots, or those of another run.
    """
    parser = argparse.ArgumentParser(prog="annulus picture", description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(), help="the repository, where `dvc repro` has run")
    parser.add_argument("--svg", type=Path, required=True, help="the file to write")
    parser.add_argument("--annealing", action="store_true", help="draw the selected sampler's set at several epochs")
    arguments = parser.parse_args(argv)
    outputs = arguments.root / "data" / "main"
    params = load_params(arguments.root / "params.yaml")
    temperature = params.get("methods.${method}").temperature
    run = load_run(outputs / "snapshots" / f"{params.seeds[0]}.safetensors", temperature)
    if not is_locked(arguments.root, "pretrain", "data/main/snapshots"):
        raise InputError(
            "data/main/snapshots is not what dvc.lock names; `dvc checkout` brings it where it was made here, else "
            "`dvc repro` makes it"
        )
    labels = load_images(outputs / "images" / "train.safetensors").labels[run.images]
    scene = scene_of(run, labels, params.samplers, params.seeds[0])
    if arguments.annealing:
        curve = read_curve(arguments.root / "metrics" / "main" / "pretrain_history.csv", params.seeds[0])
        sampler = dict(params.samplers)[params.sampler]
        if params.sampler == "cave":
            sampler = cave_for(sampler, len(run.images), run.train_images)
        content = svg_of_annealing(moments_of(run, curve, labels, sampler, scene.query, params.seeds[0]))
    else:
        content = svg(scene)
    write_text(arguments.svg, content)
    print(f"{arguments.svg}: the annulus around one image")
