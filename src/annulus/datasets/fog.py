"""`fog`: the objects of `shapes` in fog, in 20 classes. Lightness alone determines the class, and so does colour alone.

A class is a hue and a ground; its outline follows from both. Lightness shows the outline and the ground, which
determine the hue. The colour of the object shows its hue and the outline, which determine the ground. So the two views
of CMC (L and ab of Lab) share the class. In `shapes` they share only the outline: L has the ground's pattern, ab the
hue. Fog halves the contrast and covers the picture with grain, so the class is hard for an untrained network.
"""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from annulus.datasets.draws import Draws
from annulus.datasets.outlines import OUTLINES
from annulus.datasets.shapes import HUES, chunks, draw_pictures, grained
from annulus.datasets.textures import GROUNDS

GRAIN = 128  # levels of 256: a standard deviation of 37
PARTS = [(hue, ground, (hue + ground) % len(OUTLINES)) for hue in range(len(HUES)) for ground in range(len(GROUNDS))]
CLASSES = tuple(f"{HUES[hue]}-{list(OUTLINES)[outline]}-{list(GROUNDS)[ground]}" for hue, ground, outline in PARTS)


def draw_fog(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n 3 h w"]:
    """Draws the images of these rows, `size` pixels a side. An image depends only on its row, the size and the key."""
    images = np.empty((len(rows), 3, size, size), np.uint8)
    for some in chunks(len(rows), size):
        draws = Draws(key, rows[some])
        clear = draw_pictures(draws, *np.array(PARTS)[rows[some] % len(PARTS)].T, size).astype(np.int32)
        images[some] = grained(draws, (clear + 128) >> 1, GRAIN)
    return torch.from_numpy(images)
