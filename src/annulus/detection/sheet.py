"""Test pictures with what is in them and what each variant's detector found, as one picture."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from annulus.detection.annotated import Annotated, Picture, mask_of
from annulus.detection.transfer import SHOWN

SIDE, GAP, LABEL = 192, 4, 110  # pixels
LEAST_SCORE = 0.5  # of detections that are drawn
COLOURS = ((230, 60, 60), (60, 150, 230), (240, 190, 40), (70, 200, 120), (200, 110, 220), (250, 140, 60))


def sheet(test: Annotated, found: Mapping[str, Sequence[Mapping[str, Any]]]) -> Image.Image:
    """A column for each picture: the annotations, and below them each variant's detections above `LEAST_SCORE`."""
    pictures, step = test.pictures[:SHOWN], SIDE + GAP
    image = Image.new("RGB", (LABEL + step * len(pictures) + GAP, step * (1 + len(found)) + GAP), "white")
    pen = ImageDraw.Draw(image)
    for row, name in enumerate(["annotated", *found]):
        pen.text((GAP, GAP + row * step + SIDE // 2), name, fill="black")
        for column, picture in enumerate(pictures):
            things = [vars(one) for one in picture.instances] if row == 0 else _of(picture, found[name])
            image.paste(_drawn(test, picture, things), (LABEL + column * step, GAP + row * step))
    return image


def _of(picture: Picture, found: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [one for one in found if one["picture"] == picture.id and one["score"] >= LEAST_SCORE]


def _drawn(test: Annotated, picture: Picture, things: Sequence[Mapping[str, Any]]) -> Image.Image:
    """One picture in a square of `SIDE`, with masks as a tint, boxes and limbs as lines."""
    with Image.open(picture.file) as file:
        pixels = np.array(file.convert("RGB")).astype(np.float32)
    ids = [category.id for category in test.categories]
    colours = [COLOURS[ids.index(one["category"]) % len(COLOURS)] for one in things]
    for one, colour in zip(things, colours, strict=True):
        if one["segmentation"] is not None:
            covered = mask_of(_Shape(one["segmentation"]), picture.height, picture.width)
            pixels[covered] = 0.5 * pixels[covered] + 0.5 * np.array(colour, np.float32)
    times = SIDE / max(picture.width, picture.height)
    size = (max(1, round(picture.width * times)), max(1, round(picture.height * times)))
    drawn = Image.fromarray(pixels.astype(np.uint8)).resize(size, Image.Resampling.NEAREST)
    pen = ImageDraw.Draw(drawn)
    for one, colour in zip(things, colours, strict=True):
        left, top, width, height = (side * times for side in one["box"])
        pen.rectangle((left, top, left + width, top + height), outline=colour, width=2)
        for first, second in test.skeleton or ():
            points = one["keypoints"] or ()
            ends = [points[3 * place : 3 * place + 2] for place in (first, second)]
            if all(any(end) for end in ends):
                pen.line([tuple(at * times for at in end) for end in ends], fill=colour, width=2)
    square = Image.new("RGB", (SIDE, SIDE), "white")
    square.paste(drawn)
    return square


class _Shape:
    """What `mask_of` reads of an instance."""

    def __init__(self, segmentation: Any) -> None:
        self.segmentation = segmentation
