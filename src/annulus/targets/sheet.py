"""A picture of the targets: a row for each with its name, number of classes and some test images, of a class each."""

from collections.abc import Mapping

import numpy as np
import torch
from PIL import Image, ImageDraw

from annulus.files.images import ImageSet

SHOWN, TILE, LABEL, GAP = 12, 48, 150, 4  # images of a row; pixels


def sheet(targets: Mapping[str, ImageSet]) -> Image.Image:
    """Test images of the first classes, one of each, and further ones where there are few classes."""
    step = TILE + GAP
    picture = Image.new("RGB", (LABEL + SHOWN * step, len(targets) * step + GAP), "white")
    pen = ImageDraw.Draw(picture)
    for place, (name, images) in enumerate(targets.items()):
        top = GAP + place * step
        pen.text((GAP, top + TILE // 2 - 6), f"{name}, {len(images.classes)} classes", fill="black")
        index = _in_turn(images)[:SHOWN]
        for column, pixels in enumerate(images.images.take(index)):
            tile = Image.fromarray(np.ascontiguousarray(pixels.permute(1, 2, 0).numpy()))
            picture.paste(tile.resize((TILE, TILE), Image.Resampling.NEAREST), (LABEL + column * step, top))
    return picture


def _in_turn(images: ImageSet) -> torch.Tensor:
    """The images' numbers: the first of each class, then the second of each."""
    labels = images.labels
    counts = torch.zeros(len(images.classes), dtype=torch.int64)
    turn = torch.empty_like(labels)
    for number, label in enumerate(labels.tolist()):
        turn[number] = counts[label]
        counts[label] += 1
    return (turn * len(images.classes) + labels).argsort()
