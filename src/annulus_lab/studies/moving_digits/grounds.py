"""Generated backgrounds of ten classes: two patterns, each in five families of hues.

Shades, period, phase and tilt are each image's own.
"""

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.datasets.draws import Draws
from annulus.datasets.shapes import HUES, axes, colour
from annulus.datasets.textures import GROUNDS, draw_ground

PATTERNS = ("upright", "checks")
CLASSES = tuple(f"{hue}-{pattern}" for hue in HUES for pattern in PATTERNS)
TURN = 1024  # the circle of hues


def draw_grounds(count: int, size: int, key: int) -> tuple[UInt8[Tensor, "n 3 size size"], Int64[Tensor, "n"]]:
    """Draws `count` images and their classes in turn; an image depends only on its row, the size and the key."""
    rows = np.arange(count)
    labels, draws = rows % len(CLASSES), Draws(key, rows)
    numbers = np.array([list(GROUNDS).index(pattern) for pattern in PATTERNS])[labels % len(PATTERNS)]
    hue = (labels // len(PATTERNS) * (TURN // len(HUES)))[:, None, None] + draws.integers(-100, 101)
    dark, light = (
        colour(hue + draws.integers(-100, 101), draws.integers(60, 240), draws.integers(*values), TURN)
        for values in ((12, 66), (66, 126))  # darker than the ink
    )
    plane = draw_ground(draws, *axes(size), numbers)[:, None]
    images = dark + (((light - dark) * plane) >> 8)
    return torch.from_numpy(images.astype(np.uint8)), torch.from_numpy(labels)
