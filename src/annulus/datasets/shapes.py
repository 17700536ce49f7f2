"""`shapes`: generated pictures of an object on a patterned ground, the same bytes on every machine.

A class is an outline, a pattern of the ground and a hue: five, four and five of them, 100 classes. A fifth or a quarter
of all images share an attribute, so an image's nearest neighbours of other classes differ from it in one attribute.
Place, size and tilt of the object, period and phase of the pattern, shades, light and grain have the same distribution
for every class, and vary at most as much as the views of an image. In an earlier version, colours, turns and textures
were drawn for each image apart from its class. They identified images better than the outline did, instance
discrimination learned them, and nearest neighbours became worse than with an untrained network.

The bytes cannot differ between machines: from the draws (draws.py) to the pixels, all arithmetic is on fixed-width
integers within 31 bits, without rounding, and independent of the order of summation. Constants from decimal fractions
are rounded once, as Python numbers.
"""

from itertools import product
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from annulus.datasets.draws import Draws, cosine_sine
from annulus.datasets.outlines import ONE, OUTLINES, SPAN
from annulus.datasets.textures import GROUNDS, draw_ground

Plane = np.ndarray  # int32, (n, size, size) or what broadcasts to it

HUES = ("red", "lime", "green", "blue", "purple")  # a fifth of the circle apart
TURN = 1536  # the circle of hues
CLASSES = tuple(f"{hue}-{outline}-{ground}" for hue, ground, outline in product(HUES, GROUNDS, OUTLINES))
SPANS = np.array([round(SPAN[name] * 256) for name in OUTLINES], np.int32)
FRAME = 2**14  # half of the picture's side, in the units of its coordinates
CHUNK_PIXELS = 2**17  # planes that fit the cache


class Placed(NamedTuple):
    """Limits of an object's radius, turn and distance from the middle.

    The radius lies between two percentages of half a picture's side (with 54 to 78 the object covers 15 to 30 % of the
    picture). The turn lies in [first, last), in 1/1024 of a circle. In each direction the distance is at most half a
    side divided by `middle`.
    """

    smallest: int
    largest: int
    turns: tuple[int, int]
    middle: int


PLACED = Placed(smallest=54, largest=78, turns=(-40, 41), middle=5)


def row_classes(rows: np.ndarray) -> np.ndarray:
    """Classes of these rows. They alternate, so the first n images are balanced for every n."""
    return rows % len(CLASSES)


def draw_shapes(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n 3 h w"]:
    """Draws the images of these rows, `size` pixels a side. An image depends only on its row, the size and the key."""
    images = np.empty((len(rows), 3, size, size), np.uint8)
    for some in chunks(len(rows), size):
        kinds = np.unravel_index(row_classes(rows[some]), (len(HUES), len(GROUNDS), len(OUTLINES)))
        images[some] = draw_pictures(Draws(key, rows[some]), *kinds, size)
    return torch.from_numpy(images)


def chunks(count: int, size: int) -> list[slice]:
    """Slices of the images that are drawn together."""
    step = max(1, CHUNK_PIXELS // size**2)
    return [slice(start, start + step) for start in range(0, count, step)]


def draw_pictures(draws: Draws, hues: np.ndarray, grounds: np.ndarray, outlines: np.ndarray, size: int) -> np.ndarray:
    """Draws pictures (n, 3, size, size) of objects by the numbers of their hues, grounds and outlines."""
    x, y = axes(size)

    # The object is bright, and the ground dark and of the opposite hue, so the object is visible in grey too.
    hue = (hues.astype(np.int32) * (TURN // len(HUES)))[:, None, None] + draws.integers(-46, 47)
    ground = colour(hue + TURN // 2 + draws.integers(-64, 65), draws.integers(60, 140), draws.integers(50, 100))
    pattern = draw_ground(draws, x, y, grounds) - 128
    image = ground + ((pattern * draws.integers(24, 48)) >> 7)[:, None]
    thing = colour(hue, draws.integers(120, 220), draws.integers(170, 240))
    image += ((thing - image) * covered(draws, x, y, outlines, size, PLACED)[:, None]) >> 8

    # Light falls from one side, up to 25 % more or less at the rim; then grain, drawn for each channel.
    light = 256 + ((draws.integers(-64, 65) * x + draws.integers(-64, 65) * y) >> 15)
    return grained(draws, (image * light[:, None]) >> 8)


def axes(size: int) -> tuple[Plane, Plane]:
    """x (1, 1, size) and y (1, size, 1) of the pixels' centres, over the picture from -2**14 to 2**14."""
    axis = ((2 * np.arange(size, dtype=np.int32) + 1 - size) * FRAME) // size
    return axis[None, None, :], axis[None, :, None]


def grained(draws: Draws, image: np.ndarray, levels: int = 16, channels: int = 3) -> np.ndarray:
    """Adds grain of `levels` levels in each of `channels` channels to an image (n, 3, size, size); returns bytes."""
    size, shifts = image.shape[-1], np.array([0, 16, 32][:channels], np.uint64)[:, None, None]
    grain = (draws.words(size * size).reshape(-1, 1, size, size) >> shifts) & np.uint64(levels - 1)
    return np.clip(image + grain.astype(np.int32) - levels // 2, 0, 255).astype(np.uint8)


def covered(draws: Draws, x: Plane, y: Plane, outlines: np.ndarray, size: int, placed: Placed) -> Plane:
    """Coverage of each pixel by the object, in 1/256; x and y are from `axes`, `outlines` are numbers in OUTLINES."""
    radius = draws.integers(FRAME * placed.smallest // 100, FRAME * placed.largest // 100)  # of a unit of the outline
    radius = (radius * SPANS[outlines][:, None, None]) >> 8
    cosine, sine = (turned * FRAME // radius for turned in cosine_sine(draws.integers(*placed.turns)))
    near, far = -FRAME // placed.middle, FRAME // placed.middle
    dx, dy = x - draws.integers(near, far), y - draws.integers(near, far)
    # |dx|, |dy| < 1.25 * 2**14 and |cosine|, |sine| < 3.2 * 2**12, so the sum of products stays below 2**30.
    u = np.clip((dx * cosine + dy * sine) >> 14, -4 * ONE, 4 * ONE)
    v = np.clip((dy * cosine - dx * sine) >> 14, -4 * ONE, 4 * ONE)

    depth = np.empty_like(u)
    for label, outline in enumerate(OUTLINES.values()):
        chosen = outlines == label
        depth[chosen] = outline(u[chosen], v[chosen])
    # Antialiasing: within half a pixel of the edge, coverage rises from 0 to 1.
    pixels = radius * size // (FRAME // 8)  # in one unit of the outline, in 1/16
    return np.clip(128 + ((np.clip(depth, -2 * ONE, 2 * ONE) * pixels) >> 8), 0, 256)


def colour(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray, turn: int = TURN) -> np.ndarray:
    """Converts HSV to RGB, (n, 3, 1, 1): hue in 1/turn of the circle, saturation and value in 1/256."""
    thirds = np.array([0, 2 * turn // 3, turn // 3], np.int32)[:, None, None]
    far = abs((hue[:, None] + thirds) % turn - turn // 2)  # turn // 2 at the channel's own hue
    pure = np.clip(far * 6 * 256 // turn - 256, 0, 256)
    return (value[:, None] * (256 - ((saturation[:, None] * (256 - pure)) >> 8))) >> 8
