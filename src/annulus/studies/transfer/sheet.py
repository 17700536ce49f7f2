"""A picture of the targets: a row for each with its name, number of classes and some test images, of a class each."""

from collections.abc import Mapping

import torch
from PIL import Image

from annulus.files.images import ImageSet
from annulus.files.sheets import sheet, tile
from annulus.files.store import squares

SHOWN, TILE = 12, 48  # images of a row; pixels a side


def sheet_of(targets: Mapping[str, ImageSet]) -> Image.Image:
    """Test images of the first classes, one of each, and further ones where there are few classes."""
    return sheet(
        [
            (f"{name}, {len(images.classes)} classes", [tile(image, TILE) for image in squares(images.images, first)])
            for name, images in targets.items()
            for first in [_in_turn(images)[:SHOWN]]
        ]
    )


def _in_turn(images: ImageSet) -> torch.Tensor:
    """The images' numbers: the first of each class, then the second of each."""
    labels = images.labels
    counts = torch.zeros(len(images.classes), dtype=torch.int64)
    turn = torch.empty_like(labels)
    for number, label in enumerate(labels.tolist()):
        turn[number] = counts[label]
        counts[label] += 1
    return (turn * len(images.classes) + labels).argsort()
