"""`objects`: generated pictures of one object with a class for each pixel, the same bytes on every machine.

An image's class is the object's outline. A pixel's class is 0 on the ground, and the image's class plus one on the
object. Colours are composed of luma and chroma, which in natural images mainly share the objects. Here both show the
object: it is brighter than the ground and has an opposite hue, warm on a cold ground. Brightness and hue of each are
drawn independently. The light, a random dapple on object and ground, changes only the luma. So all channels of RGB show
the dapple, which identifies the image and is independent of the class, while luma and chroma share only the object.

All arithmetic is on integers within 31 bits, as in shapes.py.
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
# Mean hues of object and ground, and the largest deviation from them. Orange and blue differ in luminance (linear
# light, as in CIELAB) about as much as in luma, so Lab shows the object as well as YDbDr does.
WARM, COLD, AROUND = 404, 916, TURN // 8
CONTRAST = 64  # of 256 levels: the object's luma is above the ground's by half of this or more
DAPPLE = 40  # levels that the light adds or subtracts at most
CELLS = 4  # of the dapple in each direction; it is linear between their corners

# Red, green and blue for U and for V of YUV, in 1/1024; their luma is 0 (ITU-R BT.601).
U_TO_RGB = np.array([0, -404, 2081], np.int32)[:, None, None]
V_TO_RGB = np.array([1167, -595, 0], np.int32)[:, None, None]


def draw_objects(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n 3 h w"]:
    """Draws the images of these rows, `size` pixels a side. An image depends only on its row, the size and the key."""
    images = np.empty((len(rows), 3, size, size), np.uint8)
    for some in chunks(len(rows), size):
        images[some] = _draw(rows[some], size, key)
    return torch.from_numpy(images)


def draw_masks(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n h w"]:
    """Draws the classes of the pixels: the object's class if it covers at least half of the pixel, else 0."""
    masks = np.empty((len(rows), size, size), np.uint8)
    for some in chunks(len(rows), size):
        kinds = rows[some] % len(OBJECTS)
        masks[some] = (_object(Draws(key, rows[some]), kinds, size) >= 128) * (kinds[:, None, None] + 1)
    return torch.from_numpy(masks)


def _object(draws: Draws, kinds: np.ndarray, size: int) -> Plane:
    """Coverage of each pixel by the object, in 1/256. Its draws come first."""
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
    return grained(draws, luma[:, None] + ((u[:, None] * U_TO_RGB + v[:, None] * V_TO_RGB) >> 18), levels=8)


def _dapple(draws: Draws, size: int) -> Plane:
    """Levels that the light adds, (n, size, size)."""
    count = CELLS + 1
    points = below(draws.words(count**2), 2 * DAPPLE + 1).reshape(-1, count, count) - DAPPLE
    return between(points, np.arange(size, dtype=np.int32) * CELLS, size)
