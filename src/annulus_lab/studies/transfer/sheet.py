"""Picture of the targets: a row for each with its name, number of classes and test images of different classes."""

from collections.abc import Mapping

import torch
from PIL import Image

from annulus.files.images import ImageSet
from annulus.files.sheets import sheet, tile
from annulus.files.store import squares

SHOWN, TILE = 12, 48  # images of a row; pixels a side


def target_sheet(targets: Mapping[str, ImageSet]) -> Image.Image:
    """Sheet of test images: one of each of the first classes, and further ones of targets with few classes."""
    return sheet(
        [
            (f"{name}, {len(images.classes)} classes", [tile(image, TILE) for image in squares(images.images, first)])
            for name, images in targets.items()
            for first in [_in_turn(images)[:SHOWN]]
        ]
    )


def _in_turn(images: ImageSet) -> torch.Tensor:
    """Numbers of the images: the first of each class, then the second of each, and so on."""
    labels = images.labels
    counts = torch.zeros(len(images.classes), dtype=torch.int64)
    turn = torch.empty_like(labels)
    for number, label in enumerate(labels.tolist()):
        turn[number] = counts[label]
        counts[label] += 1
    return (turn * len(images.classes) + labels).argsort()
