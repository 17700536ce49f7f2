"""`objects`: generated pictures of one object with a class for each pixel, the same bytes on every machine.

An image's class is the object's outline. A pixel's class is 0 on the ground, and one more than the image's on the
object. Colours are composed of luma and chroma, which in natural images share little but the objects. Here both show
the object: it is brighter than the ground and of an opposite hue, a warm object on a cold ground; brightness and hue of
each are drawn independently. Light is in the luma alone: a dapple on object and ground, drawn for each image. So all
channels of RGB show the dapple, which identifies the image and is independent of the class; luma and chroma share only
the object.

All arithmetic is of integers within 31 bits, as in shapes.py.
"""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from annulus.datasets.draws import TURN, Draws, below, between, cosine_sine
from annulus.datasets.outlines import OUTLINES
from annulus.datasets.shapes import Placed, Plane, axes, chunks, covered, grained

OBJECTS = tuple(OUTLINES)
PLACED = Placed(smallest=45, largest=80, turns=(-60, 61), middle=4)
# The object's hues, the ground's, and how far from these either is: orange on blue, whose luminance (of linear light,
# as in CIELAB) differs by as much as their luma does, so that Lab shows the object as well as YDbDr.
WARM, COLD, AROUND = 404, 916, TURN // 8
CONTRAST = 64  # levels of 256 that the object's luma is above the ground's: from a half of these on
DAPPLE = 40  # levels that the light adds or takes away, at most
CELLS = 4  # of the dapple in each direction: between their corners it is linear

# Levels of red, green and blue for U and for V of YUV, in 1/1024: they change no luma (ITU-R BT.601).
OF_U = np.array([0, -404, 2081], np.int32)[:, None, None]
OF_V = np.array([1167, -595, 0], np.int32)[:, None, None]


def draw_objects(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n 3 h w"]:
    """The images of these rows, `size` pixels a side. An image depends only on its row, the size and the key."""
    images = np.empty((len(rows), 3, size, size), np.uint8)
    for some in chunks(len(rows), size):
        images[some] = _draw(rows[some], size, key)
    return torch.from_numpy(images)


def draw_masks(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n h w"]:
    """The class of each pixel: the object's where it covers at least half of it, else 0."""
    masks = np.empty((len(rows), size, size), np.uint8)
    for some in chunks(len(rows), size):
        kinds = rows[some] % len(OBJECTS)
        masks[some] = (_object(Draws(key, rows[some]), kinds, size) >= 128) * (kinds[:, None, None] + 1)
    return torch.from_numpy(masks)


def _object(draws: Draws, kinds: np.ndarray, size: int) -> Plane:
    """Coverage of each pixel by the object, in 1/256; the object is drawn first."""
    return covered(draws, *axes(size), kinds, size, PLACED)


def _draw(rows: np.ndarray, size: int, key: int) -> np.ndarray:
    draws = Draws(key, rows)
    share = _object(draws, rows % len(OBJECTS), size)
    contrast = draws.integers(CONTRAST // 2, CONTRAST)
    luma = 128 + draws.integers(-16, 17) - contrast // 2 + ((contrast * share) >> 8) + _dapple(draws, size)

    ground, thing = (hue + draws.integers(-AROUND, AROUND) for hue in (COLD, WARM))
    saturations = draws.integers(24, 40), draws.integers(24, 40)
    chroma = [
        (part * strength) >> 4
        for hue, strength in zip((ground, thing), saturations, strict=True)
        for part in cosine_sine(hue)
    ]  # 1/256 of a level
    u, v = (first + (((second - first) * share) >> 8) for first, second in zip(chroma[:2], chroma[2:], strict=True))
    return grained(draws, luma[:, None] + ((u[:, None] * OF_U + v[:, None] * OF_V) >> 18), levels=8)


def _dapple(draws: Draws, size: int) -> Plane:
    """Levels that the light adds, (n, size, size)."""
    count = CELLS + 1
    points = below(draws.words(count**2), 2 * DAPPLE + 1).reshape(-1, count, count) - DAPPLE
    return between(points, np.arange(size, dtype=np.int32) * CELLS, size)
