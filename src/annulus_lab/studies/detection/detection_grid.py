"""Picture of the truth beside the detections, with boxes, names, masks and limbs."""

from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image, ImageDraw

from annulus.datasets.decode import opened
from annulus.files.sheets import sheet
from annulus_lab.studies.detection.annotated import Annotated, Detection, Instance, Picture, decode_mask

TILE = 240  # pixels: a picture's longer side
TINT = 0.45  # of a mask's pixels
COLOURS = ((230, 75, 60), (70, 160, 245), (250, 200, 50), (80, 205, 120), (205, 120, 235), (250, 145, 60))

DrawnObject = Instance | Detection


def grid(truth: Annotated, detected: Mapping[str, Sequence[Detection]]) -> Image.Image:
    """Grid with a column for each picture, a row for the truth, and a row for each detector by its name.

    A picture with n objects shows the n best detections of a detector. A category has one colour everywhere; persons
    have one category, and each has its own colour.
    """
    pictures = truth.pictures
    rows = [("annotated", [drawn(truth, picture, picture.instances) for picture in pictures])]
    for name, detections in detected.items():
        ranked = sorted(detections, key=lambda one: -one.score)
        best = [[one for one in ranked if one.picture == picture.id][: len(picture.instances)] for picture in pictures]
        rows.append((name, [drawn(truth, picture, some) for picture, some in zip(pictures, best, strict=True)]))
    return sheet(rows)


def drawn(truth: Annotated, picture: Picture, things: Sequence[DrawnObject]) -> Image.Image:
    """Draws a picture and these things in a square of `TILE` pixels, the picture's longer side."""
    pixels = np.asarray(opened(picture.file), dtype=np.float32)
    order = [category.id for category in truth.categories]
    names = {category.id: category.name for category in truth.categories}
    colours = [
        COLOURS[(place if truth.kind == "keypoints" else order.index(one.category)) % len(COLOURS)]
        for place, one in enumerate(things)
    ]
    for one, colour in zip(things, colours, strict=True):
        if one.segmentation is not None:
            covered = decode_mask(one, picture.height, picture.width)[:, :, None]
            pixels = np.where(covered, (1 - TINT) * pixels + TINT * np.array(colour, np.float32), pixels)
    times = TILE / max(picture.width, picture.height)
    size = max(1, round(picture.width * times)), max(1, round(picture.height * times))
    image = Image.fromarray(pixels.astype(np.uint8)).resize(size, Image.Resampling.BILINEAR)
    pen = ImageDraw.Draw(image)
    for one, colour in zip(things, colours, strict=True):
        x, y, width, height = (at * times for at in one.box)
        pen.rectangle((x, y, x + width, y + height), outline=colour, width=2)
        score = f" {one.score:.2f}" if isinstance(one, Detection) else ""
        _label(pen, (x, y), f"{names[one.category]}{score}", colour, image.width)
        _limbs(pen, truth, one, times, colour)
    square = Image.new("RGB", (TILE, TILE), "white")
    square.paste(image)
    return square


def _limbs(
    pen: ImageDraw.ImageDraw, truth: Annotated, one: DrawnObject, times: float, colour: tuple[int, int, int]
) -> None:
    """Draws limbs between labelled points, and the points, hidden ones hollow. All points of a detection count."""
    if one.keypoints is None:
        return
    points = np.reshape(one.keypoints, (-1, 3))
    labelled = np.ones(len(points), bool) if isinstance(one, Detection) else points[:, 2] > 0
    at = [tuple(((point[:2] + 0.5) * times).tolist()) for point in points]  # the middle of its pixel
    for first, last in truth.skeleton or ():
        if labelled[first] and labelled[last]:
            pen.line([at[first], at[last]], fill=colour, width=2)
    for place in np.flatnonzero(labelled):
        hidden = isinstance(one, Instance) and points[place, 2] == 1
        x, y = at[place]
        pen.ellipse((x - 2, y - 2, x + 2, y + 2), fill=None if hidden else "white", outline=colour)


def _label(
    pen: ImageDraw.ImageDraw, at: tuple[float, float], text: str, colour: tuple[int, int, int], room: int
) -> None:
    """Draws a name above the box's corner, moved into the picture of width `room`."""
    width, height = pen.textbbox((0, 0), text)[2:]
    x = max(min(at[0], room - width - 2), 0)
    y = max(at[1] - height, 0)
    pen.rectangle((x, y, x + width + 2, y + height), fill=colour)
    pen.text((x + 1, y - 1), text, fill="white")
