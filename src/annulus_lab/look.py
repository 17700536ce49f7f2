"""`annulus look` in a checkout: uses the views and sizes of params.yaml, and prints the command that trains."""

import argparse
import logging
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from annulus.look import LookedParts, gentle, look, parser  # first: it names missing packages

# isort: split
from annulus.datasets.prepare import chosen_rows
from annulus.device.rng import generator
from annulus.files.images import UNLABELLED
from annulus.files.subset import held_out
from annulus.training.small_data import enough_epochs, epoch_steps
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet
from annulus_lab.config.all_params import AllParams
from annulus_lab.config.file import load_params


def main(argv: Sequence[str] | None = None) -> None:
    """Prints facts about images in the main line's views and sizes, and the command that trains on them."""
    words = parser()
    words.add_argument("--params", type=Path, default=Path("params.yaml"), help=argparse.SUPPRESS)
    arguments = words.parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    params = load_params(arguments.params) if arguments.params.exists() else None
    drawn = () if params is None else (params.datasets.photos.test_fraction, params.seeds[0])
    parts = look(arguments.path, arguments.classes, arguments.sheet, *chosen(arguments.views, params), *drawn)
    if params is not None:
        more = more_epochs(parts, params)
        if more is not None:
            print(f"{'steps':<14}{more.reason}")
        print(f"{'next':<14}{_line(arguments.path, arguments.classes, arguments.views, more)}")


def chosen(named: str | None, params: AllParams | None) -> tuple[ViewSet, str, int, int]:
    """Views, their name, and image and view size of photos; without a name the views that params.yaml chooses."""
    if params is None:  # outside of a checkout
        return gentle(named)
    photos, name = params.datasets.photos, params.views if named is None else named
    views = params.view_sets[name] if name in params.view_sets else view_set(name)
    return views, name, photos.image_size, photos.view_size


@dataclass(frozen=True)
class MoreEpochs:
    """Change of params.yaml that gives few images enough training steps, and its reason."""

    change: str
    reason: str


def training_images(parts: LookedParts, params: AllParams) -> int:
    """Number of images that a run of params.yaml trains on."""
    source, seed, limits = parts.sources["train"], params.seeds[0], params.get("scales.${scale}.prepare")
    limits = {"train": limits.train_images, "unlabelled": limits.unlabelled_images}
    rows = chosen_rows(source, limits, "train", seed, "scales.SCALE.prepare")
    labels = source.labels[rows[parts.readable["train"][rows]]]
    known = labels[labels != UNLABELLED]
    if "validation" in parts.sources or not len(known):
        return len(labels)
    fraction = params.datasets.photos.validation_fraction
    return len(labels) - len(held_out(known, fraction, generator(seed, "validation")))


def more_epochs(parts: LookedParts, params: AllParams) -> MoreEpochs | None:
    """Change to a number of epochs with enough training steps; None if the scale of params.yaml has enough."""
    budget, images = params.get("scales.${scale}.pretrain"), training_images(parts, params)
    steps, epochs = epoch_steps(images, budget), enough_epochs(images, budget)
    if epochs == budget.epochs:
        return None
    reason = (
        f"{budget.epochs} epochs of {images:,} training images are {budget.epochs * steps:,} steps, too few to learn "
        f"much; {epochs:,} epochs are {epochs * steps:,} steps, as in the main line"
    )
    return MoreEpochs(f"scales.{params.scale}.pretrain.epochs={epochs}", reason)


def _line(path: Path, classes: str, views: str | None, more: MoreEpochs | None) -> str:
    """Command that trains on the images; `views` and `more` None: the values of params.yaml."""
    root = str(path.expanduser().absolute())
    if not re.fullmatch(r"[\w ./-]+", root, re.ASCII):  # DVC parses the value of `-S` by Hydra's grammar
        root = '"' + root.replace('"', r"\"") + '"'
    changes = ["dataset=photos", f"datasets.photos.root={root}"]
    if classes != "top":
        changes.append(f"datasets.photos.classes={classes}")
    if views is not None:
        changes.append(f"views={views}")
    if more is not None:
        changes.append(more.change)
    return shlex.join(["dvc", "exp", "run", *(word for change in changes for word in ("-S", change))])
