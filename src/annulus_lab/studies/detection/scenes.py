"""Draws pictures of several objects or persons, each with its visible part; the same pixels on every machine.

Objects come from the data set `shapes`: an outline in a hue, on its patterned grounds, under its light and grain. So an
encoder of `shapes` knows them. Here they are smaller, and several objects may cover each other. All arithmetic is on
integers (datasets/draws.py), or on floats by + - * / and roots, whose rounding IEEE 754 fixes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from jaxtyping import Bool, Int32, UInt8

from annulus.datasets.draws import Draws, cosine_sine
from annulus.datasets.outlines import ONE, OUTLINES
from annulus.datasets.shapes import FRAME, HUES, SPANS, TURN, axes, colour, grained
from annulus.datasets.textures import GROUNDS, draw_ground
from annulus_lab.studies.detection.figures import draw_figure

KINDS_OF_OBJECTS = tuple(f"{hue}-{outline}" for hue, outline in product(HUES, OUTLINES))
LEAST_SEEN = 40  # percent of an object that must stay visible; other objects are left out
LEAST_PIXELS = 12


@dataclass(frozen=True)
class Thing:
    """Object or person, and its visible part."""

    label: int  # an object's place in KINDS_OF_OBJECTS; 0 for a person
    mask: Bool[np.ndarray, "h w"]
    seen: int  # visible percent of the part in the picture
    keypoints: tuple[float, ...] | None


@dataclass(frozen=True)
class DrawnScene:
    """Picture, and the things in it from front to back."""

    image: UInt8[np.ndarray, "h w 3"]
    things: tuple[Thing, ...]


def draw_scene(row: int, size: int, most: int, weights: Sequence[int], key: int, persons: bool) -> DrawnScene:
    """Draws a scene; it depends only on its row, its settings and the key.

    `weights`: relative frequency of each of KINDS_OF_OBJECTS.
    """
    draws = Draws(key, np.array([row]))
    x, y = axes(size)
    image = _ground(draws, x, y)
    layers: list[tuple[np.ndarray, np.ndarray]] = []
    things: list[Thing] = []
    taken = np.zeros((size, size), dtype=bool)
    for _ in range(int(draws.integers(1, most + 1).item())):
        label, points = 0, None
        if persons:
            cover, paint, points = draw_figure(draws, size)
        else:
            label = int(np.searchsorted(np.cumsum(weights), draws.integers(0, sum(weights)).item(), side="right"))
            cover, paint = _object(draws, x, y, size, label)
        whole = cover >= 128
        mask = whole & ~taken
        seen = 100 * int(mask.sum()) // max(int(whole.sum()), 1)
        if seen < LEAST_SEEN or mask.sum() < LEAST_PIXELS:
            continue
        keypoints = None if points is None else _visible(points, taken)
        things.append(Thing(label, mask, seen, keypoints))
        layers.append((cover, paint))
        taken |= whole
    for cover, paint in reversed(layers):  # the first lies in front
        image = image + (((paint - image) * cover) >> 8)
    return DrawnScene(_lit(draws, image, x, y), tuple(things))


def _ground(draws: Draws, x: Int32[np.ndarray, "1 1 w"], y: Int32[np.ndarray, "1 h 1"]) -> Int32[np.ndarray, "3 h w"]:
    """Draws a dark ground with a pattern of `shapes`."""
    paint = colour(draws.integers(0, TURN), draws.integers(60, 140), draws.integers(50, 100))
    pattern = draw_ground(draws, x, y, draws.integers(0, len(GROUNDS))[:, 0, 0]) - 128
    return (paint + ((pattern * draws.integers(24, 48)) >> 7)[:, None])[0]


def _object(
    draws: Draws, x: Int32[np.ndarray, "1 1 w"], y: Int32[np.ndarray, "1 h 1"], size: int, label: int
) -> tuple[Int32[np.ndarray, "h w"], Int32[np.ndarray, "3 h w"]]:
    """Draws an object: coverage of each pixel in 1/256, and its colour. The object's middle lies in the picture."""
    hue, outline = divmod(label, len(OUTLINES))
    radius = draws.integers(FRAME * 16 // 100, FRAME * 60 // 100)
    radius = (radius * SPANS[outline]) >> 8
    cosine, sine = (turned * ONE // radius for turned in cosine_sine(draws.integers(-40, 41)))  # 14 degrees
    dx, dy = (at - draws.integers(-FRAME * 9 // 10, FRAME * 9 // 10) for at in (x, y))
    # |dx|, |dy| < 2**15 and |cosine|, |sine| < 2**13, so the sum of products stays below 2**30.
    u = np.clip((dx * cosine + dy * sine) >> 12, -4 * ONE, 4 * ONE)
    v = np.clip((dy * cosine - dx * sine) >> 12, -4 * ONE, 4 * ONE)
    depth = np.clip(list(OUTLINES.values())[outline](u, v), -2 * ONE, 2 * ONE)
    pixels = radius * size // (FRAME // 8)  # in one unit of the outline, in 1/16
    cover = np.clip(128 + ((depth * pixels) >> 8), 0, 256)[0]
    turn = np.full((1, 1, 1), hue * (TURN // len(HUES)), np.int32) + draws.integers(-46, 47)
    paint = colour(turn, draws.integers(120, 220), draws.integers(170, 240))[0]
    return cover, np.broadcast_to(paint, (3, size, size)).astype(np.int32)


def _lit(
    draws: Draws, image: Int32[np.ndarray, "3 h w"], x: Int32[np.ndarray, "1 1 w"], y: Int32[np.ndarray, "1 h 1"]
) -> UInt8[np.ndarray, "h w 3"]:
    """Adds light from one side, and grain, as in `shapes`."""
    light = 256 + ((draws.integers(-64, 65) * x + draws.integers(-64, 65) * y) >> 15)
    return grained(draws, ((image * light) >> 8)[None])[0].transpose(1, 2, 0)


def _visible(points: Sequence[tuple[int, int, bool]], taken: Bool[np.ndarray, "h w"]) -> tuple[float, ...]:
    """Keypoints with COCO's visibility: 0 outside of the picture or without a place, 1 behind another thing, else 2."""
    size = len(taken)
    keypoints: list[float] = []
    for x, y, placed in points:
        if placed and 0 <= x < size and 0 <= y < size:
            keypoints += [float(x), float(y), 1.0 if taken[y, x] else 2.0]
        else:
            keypoints += [0.0, 0.0, 0.0]
    return tuple(keypoints)
