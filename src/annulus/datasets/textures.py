"""Textures of `shapes`: planes of 0 to 256 that mix two colours. Integers only.

A kind sees coordinates p and q along and across its direction, in 1/1024 of a period, or smooth noise.
"""

import numpy as np

from annulus.datasets.draws import Draws, cosine_sine

Plane = np.ndarray  # int32

CELLS = 5  # of the noise along a side of the picture


def _wave(p: Plane) -> Plane:
    """A triangle wave of period 1024 between -256 and 256."""
    return abs((p & 1023) - 512) - 256


def _sharp(height: Plane) -> Plane:
    """From below zero (0) to above (256), with a soft edge."""
    return np.clip(128 + 2 * height, 0, 256)


def plain(p: Plane, q: Plane, noise: Plane) -> Plane:
    return np.full_like(p, 128)


def gradient(p: Plane, q: Plane, noise: Plane) -> Plane:
    return np.clip(128 + (p >> 4), 0, 256)


def stripes(p: Plane, q: Plane, noise: Plane) -> Plane:
    return _sharp(_wave(p))


def checks(p: Plane, q: Plane, noise: Plane) -> Plane:
    return _sharp((_wave(p) * _wave(q)) >> 6)


def dots(p: Plane, q: Plane, noise: Plane) -> Plane:
    p, q = (p & 1023) - 512, (q & 1023) - 512
    return _sharp((340 * 340 - p * p - q * q) >> 8)


def clouds(p: Plane, q: Plane, noise: Plane) -> Plane:
    return np.clip(2 * noise - 128, 0, 256)


KINDS = (plain, gradient, stripes, checks, dots, clouds)


def draw_textures(draws: Draws, x: Plane, y: Plane) -> Plane:
    """A texture per row, (n, size, size): its kind, direction, period and phase at random.

    x (1, 1, size) and y (1, size, 1) run over the picture from -2**14 to 2**14.
    """
    kinds = draws.integers(0, len(KINDS))[:, 0, 0]
    periods = draws.integers(3 * 256, 11 * 256)  # in the picture's width, in 1/512: 1.5 to 5.5
    along, across = ((turned * periods) >> 12 for turned in cosine_sine(draws.integers(0, 1024)))
    p = ((along * x + across * y) >> 14) + draws.integers(-512, 512)
    q = ((along * y - across * x) >> 14) + draws.integers(-512, 512)
    noise = _smooth_noise(draws.words((CELLS + 1) ** 2), x[0, 0])
    plane = np.empty_like(p)
    for number, kind in enumerate(KINDS):
        chosen = kinds == number
        plane[chosen] = kind(p[chosen], q[chosen], noise[chosen])
    return plane


def _smooth_noise(words: np.ndarray, axis: np.ndarray) -> Plane:
    """Values of a random lattice, 0 to 255, interpolated linearly along both sides."""
    lattice = (words & np.uint64(255)).astype(np.int32).reshape(-1, CELLS + 1, CELLS + 1)
    place = (axis + 2**14) * CELLS  # 2**15 to a cell
    cell, share = place >> 15, (place & (2**15 - 1)) >> 7  # share in 1/256
    rows = lattice[:, cell] + (((lattice[:, cell + 1] - lattice[:, cell]) * share[:, None]) >> 8)
    return rows[:, :, cell] + (((rows[:, :, cell + 1] - rows[:, :, cell]) * share) >> 8)
