"""Patterns of the ground of `shapes`: planes from 0 (dark) to 256 (light). Integers only.

A kind is a function of coordinates p and q along and across its direction, in 1/1024 of a period.
"""

import numpy as np

from annulus.datasets.draws import Draws, cosine_sine

Plane = np.ndarray  # int32


def wave(p: Plane) -> Plane:
    """A triangle wave of period 1024 between -256 and 256."""
    return abs((p & 1023) - 512) - 256


def _sharp(height: Plane) -> Plane:
    """A soft step: 0 below zero, 256 above."""
    return np.clip(128 + 2 * height, 0, 256)


def plain(p: Plane, q: Plane) -> Plane:
    return np.full_like(p, 128)


def upright(p: Plane, q: Plane) -> Plane:
    return _sharp(wave(p))


def level(p: Plane, q: Plane) -> Plane:
    return _sharp(wave(q))


def checks(p: Plane, q: Plane) -> Plane:
    return _sharp((wave(p) * wave(q)) >> 6)


GROUNDS = {kind.__name__: kind for kind in (plain, upright, level, checks)}


def draw_ground(draws: Draws, x: Plane, y: Plane, grounds: np.ndarray) -> Plane:
    """Draws the pattern of each row, (n, size, size), by its number in GROUNDS, with random period, phase and tilt.

    x (1, 1, size) and y (1, size, 1) are over the picture from -2**14 to 2**14.
    """
    periods = draws.integers(6 * 256, 9 * 256)  # in the picture's width, in 1/512: 3 to 4.5
    along, across = ((turned * periods) >> 12 for turned in cosine_sine(draws.integers(-30, 31)))  # 10 degrees
    p = ((along * x + across * y) >> 14) + draws.integers(-512, 512)
    q = ((along * y - across * x) >> 14) + draws.integers(-512, 512)
    plane = np.empty_like(p)
    for number, kind in enumerate(GROUNDS.values()):
        chosen = grounds == number
        plane[chosen] = kind(p[chosen], q[chosen])
    return plane
