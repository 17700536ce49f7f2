"""`shapes`: generated pictures of ten outlines, textured and lit, the same bytes on every machine.

The class is the outline of the object. Its size, place, turn, colours and texture, the ground's colours and texture,
the light and the grain are drawn the same way for every class.

Why the bytes cannot differ between machines: from the draws (draws.py) to the pixels everything is integer arithmetic
on fixed-width arrays that stays within 31 bits, so nothing rounds, and no order of summation matters. The constants
that come from decimal fractions are rounded once, as Python numbers.
"""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from annulus.data.draws import Draws, cosine_sine
from annulus.data.outlines import ONE, OUTLINES, SPAN
from annulus.data.textures import draw_textures

Plane = np.ndarray  # int32, (n, size, size) or what broadcasts to it

CLASSES = tuple(OUTLINES)
SPANS = np.array([round(SPAN[name] * 256) for name in CLASSES], np.int32)
FRAME = 2**14  # half of the picture's side, in the units of its coordinates
CHUNK_PIXELS = 2**17  # planes that fit the cache


def class_of(rows: np.ndarray) -> np.ndarray:
    """Classes take turns, so the first n images are balanced for every n."""
    return rows % len(CLASSES)


def draw_shapes(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n 3 h w"]:
    """The images of these rows, `size` pixels a side. An image depends on its row, the size and the key alone."""
    images = np.empty((len(rows), 3, size, size), np.uint8)
    step = max(1, CHUNK_PIXELS // size**2)
    for start in range(0, len(rows), step):
        images[start : start + step] = _draw(rows[start : start + step], size, key)
    return torch.from_numpy(images)


def _draw(rows: np.ndarray, size: int, key: int) -> np.ndarray:
    draws = Draws(key, rows)
    axis = ((2 * np.arange(size, dtype=np.int32) + 1 - size) * FRAME) // size
    x, y = axis[None, None, :], axis[None, :, None]

    share = _coverage(draws, x, y, class_of(rows), size)
    bright, hue = draws.integers(0, 2), draws.integers(0, 1536)
    ground = _surface(draws, x, y, hue, bright)
    # The object differs in hue by a quarter of the circle at least, and in brightness, so it is seen in grey too.
    thing = _surface(draws, x, y, hue + draws.integers(384, 1152), 1 - bright)
    image = ground + (((thing - ground) * share[:, None]) >> 8)

    # Light falls from one side, up to 30 % more or less at the rim; then grain, drawn for each channel.
    light = 256 + ((draws.integers(-77, 78) * x + draws.integers(-77, 78) * y) >> 15)
    grain = draws.words(size * size).reshape(-1, 1, size, size) >> np.array([0, 16, 32], np.uint64)[:, None, None]
    image = ((image * light[:, None]) >> 8) + (grain & np.uint64(15)).astype(np.int32) - 8
    return np.clip(image, 0, 255).astype(np.uint8)


def _coverage(draws: Draws, x: Plane, y: Plane, classes: np.ndarray, size: int) -> Plane:
    """How much of each pixel the object covers, in 1/256."""
    radius = draws.integers(FRAME * 50 // 100, FRAME * 72 // 100)  # what one unit of the outline spans: 12 to 26 % covered
    radius = (radius * SPANS[classes][:, None, None]) >> 8
    cosine, sine = (turned * FRAME // radius for turned in cosine_sine(draws.integers(0, 1024)))
    dx, dy = x - draws.integers(-FRAME // 5, FRAME // 5), y - draws.integers(-FRAME // 5, FRAME // 5)
    # dx, dy: 15 bits and sign; cosine, sine: 14 bits and sign; so the sum of products fits 31.
    u = np.clip((dx * cosine + dy * sine) >> 14, -4 * ONE, 4 * ONE)
    v = np.clip((dy * cosine - dx * sine) >> 14, -4 * ONE, 4 * ONE)

    depth = np.empty_like(u)
    for label, name in enumerate(CLASSES):
        chosen = classes == label
        depth[chosen] = OUTLINES[name](u[chosen], v[chosen])
    # Antialiasing: within half a pixel of the edge, coverage rises from none to all.
    pixels = radius * size // (FRAME // 8)  # in one unit of the outline, in 1/16
    return np.clip(128 + ((np.clip(depth, -2 * ONE, 2 * ONE) * pixels) >> 8), 0, 256)


def _surface(draws: Draws, x: Plane, y: Plane, hue: np.ndarray, bright: np.ndarray) -> np.ndarray:
    """Two colours of neighbouring hue, one lighter, mixed by a texture: (n, 3, size, size)."""
    value = np.where(bright == 1, draws.integers(165, 235), draws.integers(60, 115))
    contrast = draws.integers(15, 60)
    first = _colour(hue, draws.integers(70, 230), value + contrast)
    second = _colour(hue + draws.integers(-160, 161), draws.integers(70, 230), value - contrast)
    return second + (((first - second) * draw_textures(draws, x, y)[:, None]) >> 8)


def _colour(hue: np.ndarray, saturation: np.ndarray, value: np.ndarray) -> np.ndarray:
    """HSV to RGB, (n, 3, 1, 1): hue in 1/1536 of the circle, saturation in 1/256, value cut to 0..255."""
    thirds = np.array([0, 1024, 512], np.int32)[:, None, None]
    pure = np.clip(abs((hue[:, None] + thirds) % 1536 - 768) - 256, 0, 256)
    return (np.clip(value, 0, 255)[:, None] * (256 - ((saturation[:, None] * (256 - pure)) >> 8))) >> 8
