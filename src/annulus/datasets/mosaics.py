"""`mosaics`: large generated images in which near places share more than far places; the same bytes on every machine.

A picture is a lattice of zones, and a zone is a mosaic of pictures of `shapes` of one class. The mosaic is bent, and
the colour of its light changes from place to place. All places of a picture share the pattern. Places less than NEAR
apart share the light and the bend. Places of one zone share the class. A picture's class is the class of its middle.
"""

import numpy as np
import torch
from jaxtyping import UInt8
from torch import Tensor

from annulus.datasets.draws import Draws, below, between
from annulus.datasets.shapes import CLASSES, draw_shapes, row_classes

TILE = 20  # pixels a side of a picture
ZONE = 10  # pictures a side of a zone: 200 pixels
NEAR = 40  # pixels between the random points of light and bend; between the points both are linear
DEPTH = 112  # of the light, in 1/256: each channel is multiplied by 0.56 to 1.44


def draw_mosaics(rows: np.ndarray, size: int, key: int) -> UInt8[Tensor, "n 3 h w"]:
    """Draws the images of these rows, `size` pixels a side. An image depends only on its row, the size and the key."""
    images = np.empty((len(rows), 3, size, size), np.uint8)
    for place, row in enumerate(rows):
        images[place] = _draw(int(row), size, key)
    return torch.from_numpy(images)


def _draw(row: int, size: int, key: int) -> np.ndarray:
    draws = Draws(key, np.array([row]))
    y, x = _field(draws, 2, size, TILE) + np.stack(np.mgrid[:size, :size])  # of the mosaic
    across, middle = (size - 1) // TILE + 2, tuple(int(at[size // 2, size // 2]) // TILE for at in (y, x))
    classes = _classes(row, across, middle, draws)
    numbers = (row * across**2 + np.arange(across**2)) * len(CLASSES) + classes.ravel()  # a picture for each tile
    tiles = draw_shapes(numbers, TILE, key).numpy().reshape(across, across, 3, TILE, TILE)
    mosaic = tiles.transpose(2, 0, 3, 1, 4).reshape(3, across * TILE, across * TILE)
    light = 256 - DEPTH + _field(draws, 3, size, 2 * DEPTH + 1)
    return np.clip((mosaic[:, y, x].astype(np.int32) * light) >> 8, 0, 255).astype(np.uint8)


def _classes(row: int, across: int, middle: tuple[int, int], draws: Draws) -> np.ndarray:
    """The class of each tile, (across, across). The zone of the middle tile has the picture's class."""
    zones = [(np.arange(across) + draws.integers(0, ZONE).item()) // ZONE for _ in middle]
    count = across // ZONE + 2
    drawn = below(draws.words(count**2), len(CLASSES)).reshape(count, count)
    drawn[zones[0][middle[0]], zones[1][middle[1]]] = row_classes(np.array([row])).item()
    return drawn[zones[0][:, None], zones[1]]


def _field(draws: Draws, planes: int, size: int, values: int) -> np.ndarray:
    """Planes of integers in [0, values), (planes, size, size), linear between points at distance NEAR."""
    count = (size - 1) // NEAR + 3
    points = below(draws.words(planes * count**2), values).reshape(planes, count, count)
    return between(points, np.arange(size, dtype=np.int32) + draws.integers(0, NEAR).item(), NEAR)
