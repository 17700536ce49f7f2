"""`shapes`: generated pictures of four objects of one outline, the same bytes on every machine.

The class is the outline. The objects' sizes, places, turns, colours and textures, the ground's colours and texture,
the light and the grain are drawn the same way for every class. Colours change from object to object and across the
ground, so that two crops of a picture share the outline rather than a colour: with one object on a ground of one hue,
instance discrimination learned the hue, and nearest neighbours got worse than those of an untrained network.

Why the bytes cannot differ between machines: from the draws (draws.py) to the pixels everything is integer arithmetic
on fixed-width arrays that stays within 31 bits, so nothing rounds, and no order of summation matters. The constants
that come from decimal fractions are rounded once, as Python numbers.
"""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from annulus.datasets.draws import Draws, cosine_sine
from annulus.datasets.outlines import ONE, OUTLINES, SPAN
from annulus.datasets.textures import draw_textures

Plane = np.ndarray  # int32, (n, size, size) or what broadcasts to it

CLASSES = tuple(OUTLINES)
SPANS = np.array([round(SPAN[name] * 256) for name in CLASSES], np.int32)
FRAME = 2**14  # half of the picture's side, in the units of its coordinates
PLACES = [(-1, -1), (1, 1), (-1, 1), (1, -1)]  # of the objects, in quarters of the picture's side
CHUNK_PIXELS = 2**17  # planes that fit the cache


def class_of(rows: np.ndarray) -> np.ndarray:
    """Classes take turns, so the first n images are balanced for every n."""
    return rows % len(CLASSES)


def draw_shapes(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n 3 h w"]:
    """The images of these rows, `size` pixels a side. An image depends only on its row, the size and the key."""
    images = np.empty((len(rows), 3, size, size), np.uint8)
    step = max(1, CHUNK_PIXELS // size**2)
    for start in range(0, len(rows), step):
        images[start : start + step] = _draw(rows[start : start + step], size, key)
    return torch.from_numpy(images)


def _draw(rows: np.ndarray, size: int, key: int) -> np.ndarray:
    draws = Draws(key, rows)
    axis = ((2 * np.arange(size, dtype=np.int32) + 1 - size) * FRAME) // size
    x, y = axis[None, None, :], axis[None, :, None]

    # The ground is darker or brighter than all objects, so that they are seen in grey too.
    bright = draws.integers(0, 2) == 1
    image = _ground(draws, x, y, bright)
    for across, down in PLACES:
        share = _coverage(draws, x - across * FRAME // 2, y - down * FRAME // 2, class_of(rows), size)
        thing = _surface(draws, x, y, ~bright)
        image += ((thing - image) * share[:, None]) >> 8

    # Light falls from one side, up to 25 % more or less at the rim; then grain, drawn for each channel.
    light = 256 + ((draws.integers(-64, 65) * x + draws.integers(-64, 65) * y) >> 15)
    grain = draws.words(size * size).reshape(-1, 1, size, size) >> np.array([0, 16, 32], np.uint64)[:, None, None]
    image = ((image * light[:, None]) >> 8) + (grain & np.uint64(15)).astype(np.int32) - 8
    return np.clip(image, 0, 255).astype(np.uint8)


def _coverage(draws: Draws, x: Plane, y: Plane, classes: np.ndarray, size: int) -> Plane:
    """How much of each pixel an object near x = y = 0 covers, in 1/256."""
    radius = draws.integers(FRAME * 32 // 100, FRAME * 46 // 100)  # of a unit of the outline: 5 to 11 % covered
    radius = (radius * SPANS[classes][:, None, None]) >> 8
    cosine, sine = (turned * FRAME // radius for turned in cosine_sine(draws.integers(0, 1024)))
    dx, dy = x - draws.integers(-FRAME // 10, FRAME // 10), y - draws.integers(-FRAME // 10, FRAME // 10)
    # |dx|, |dy| < 1.6 * 2**14 and |cosine|, |sine| < 4.5 * 2**12, so the sum of products stays below 2**30.
    u = np.clip((dx * cosine + dy * sine) >> 14, -4 * ONE, 4 * ONE)
    v = np.clip((dy * cosine - dx * sine) >> 14, -4 * ONE, 4 * ONE)

    depth = np.empty_like(u)
    for label, name in enumerate(CLASSES):
        chosen = classes == label
        depth[chosen] = OUTLINES[name](u[chosen], v[chosen])
    # Antialiasing: within half a pixel of the edge, coverage rises from none to all.
    pixels = radius * size // (FRAME // 8)  # in one unit of the outline, in 1/16
    return np.clip(128 + ((np.clip(depth, -2 * ONE, 2 * ONE) * pixels) >> 8), 0, 256)


def _ground(draws: Draws, x: Plane, y: Plane, bright: np.ndarray) -> np.ndarray:
    """From one hue to another across the picture, (n, 3, size, size), lighter and darker by a texture."""
    value = _value(draws, bright)
    one, two = (_colour(draws.integers(0, 1536), draws.integers(0, 40), value) for _ in range(2))
    along = (draws.integers(-256, 257) * x + draws.integers(-256, 257) * y) >> 14
    mix = np.clip(128 + along, 0, 256)
    texture = ((draw_textures(draws, x, y) - 128) * draws.integers(4, 16)) >> 7
    return two + (((one - two) * mix[:, None]) >> 8) + texture[:, None]


def _surface(draws: Draws, x: Plane, y: Plane, bright: np.ndarray) -> np.ndarray:
    """Two colours of neighbouring hue, one lighter, mixed by a texture: (n, 3, size, size)."""
    hue, value, contrast = draws.integers(0, 1536), _value(draws, bright), draws.integers(10, 40)
    first = _colour(hue, draws.integers(70, 230), value + contrast)
    second = _colour(hue + draws.integers(-160, 161), draws.integers(70, 230), value - contrast)
    return second + (((first - second) * draw_textures(draws, x, y)[:, None]) >> 8)


def _value(draws: Draws, bright: np.ndarray) -> np.ndarray:
    return np.where(bright, draws.integers(155, 230), draws.integers(55, 110))


def _colour(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """HSV to RGB, (n, 3, 1, 1): hue in 1/1536 of the circle, saturation in 1/256, value cut to 0..255."""
    thirds = np.array([0, 1024, 512], np.int32)[:, None, None]
    pure = np.clip(abs((hue[:, None] + thirds) % 1536 - 768) - 256, 0, 256)
    return (np.clip(value, 0, 255)[:, None] * (256 - ((saturation[:, None] * (256 - pure)) >> 8))) >> 8
