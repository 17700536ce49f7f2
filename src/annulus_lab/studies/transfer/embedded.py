"""Targets without files: scikit-learn's digits, and generated images whose classes differ from the data set `shapes`.

`textures` has eight patterns at any turn over the whole image. `outlines` has five outlines in grey at any turn. `hues`
has twelve hues, in two to five discs. The bytes are the same on every machine.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.datasets.draws import Draws, cosine_sine
from annulus.datasets.outlines import OUTLINES
from annulus.datasets.shapes import FRAME, TURN, Placed, Plane, axes, colour, covered, grained
from annulus.datasets.source import Source
from annulus.datasets.textures import wave
from annulus.device.rng import derive
from annulus_lab.studies.transfer.folders import grey

UNSEEN = 500  # of scikit-learn's digits, the last ones, for testing; the first 1,297 are for training
IMAGES = {"train": 20_000, "test": 5_000}  # of a generated target without a limit
PLACED = Placed(smallest=45, largest=70, turns=(0, 1024), middle=5)  # of an outline
HUES = tuple(f"hue-{30 * number}" for number in range(12))  # degrees

Draw = Callable[[Draws, np.ndarray, int], np.ndarray]  # rows' streams, their classes, pixels a side -> (n, 3, h, w)


def open_digits(image_size: int) -> dict[str, Source]:
    """Opens scikit-learn's 1,797 digits of 8 x 8 pixels, enlarged."""
    from sklearn.datasets import load_digits  # the import takes a second

    bunch = load_digits()
    pixels = (torch.from_numpy(bunch.images) * (255 / 16)).round().byte()
    labels, border = torch.from_numpy(bunch.target).long(), len(bunch.target) - UNSEEN

    def source(part: slice) -> Source:
        def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
            return grey(pixels[part][rows], image_size), {}

        return Source(tuple("0123456789"), labels[part], read)

    return {"train": source(slice(border)), "test": source(slice(border, None))}


def open_generated(target: str, image_size: int, limits: Mapping[str, int | None], seed: int) -> dict[str, Source]:
    """Opens a generated target; its classes take turns, so that every part is balanced."""
    classes, draw = GENERATED[target]

    def source(split: str) -> Source:
        labels = np.arange(limits[split] or IMAGES[split]) % len(classes)
        key = derive(seed, target, split)

        def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
            chosen = rows.numpy()
            return torch.from_numpy(draw(Draws(key, chosen), labels[chosen], image_size)), {}

        return Source(classes, torch.from_numpy(labels), read)

    return {split: source(split) for split in IMAGES}


# Arguments: coordinates along and across the direction, in 1/1024 of a period. Values: heights from -256 to 256.
TEXTURES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "stripes": lambda p, q: wave(p),
    "checks": lambda p, q: np.clip((wave(p) * wave(q)) >> 6, -256, 256),
    "dots": lambda p, q: np.clip(wave(p) + wave(q) - 128, -256, 256),
    "grid": lambda p, q: np.maximum(abs(wave(p)), abs(wave(q))) * 2 - 256,
    "bricks": lambda p, q: np.clip(np.minimum(abs(wave(p + ((q >> 10) & 1) * 512)), abs(wave(q))) * 4, 0, 512) - 256,
    "zigzag": lambda p, q: wave(p + wave(q)),
    "weave": lambda p, q: np.where(((p >> 9) + (q >> 9)) & 1, wave(2 * p), wave(2 * q)),
    "scales": lambda p, q: wave(q + (wave(p + ((q >> 10) & 1) * 512) ** 2 >> 7)),
}


def _textures(draws: Draws, classes: np.ndarray, size: int) -> np.ndarray:
    """Draws a pattern over the whole image, of any turn, period and two colours."""
    x, y = axes(size)
    periods = draws.integers(4 * 256, 8 * 256)  # in the picture's width, in 1/512: 2 to 4
    along, across = ((turned * periods) >> 12 for turned in cosine_sine(draws.integers(0, 1024)))
    p = ((along * x + across * y) >> 14) + draws.integers(0, 2048)
    q = ((along * y - across * x) >> 14) + draws.integers(0, 2048)
    height = np.empty_like(p)
    for number, texture in enumerate(TEXTURES.values()):
        height[classes == number] = texture(p[classes == number], q[classes == number])
    dark = colour(draws.integers(0, TURN), draws.integers(0, 160), draws.integers(30, 110))
    bright = colour(draws.integers(0, TURN), draws.integers(0, 160), draws.integers(140, 240))
    return grained(draws, dark + ((bright - dark) * (height[:, None] + 256) >> 9))


def _outlines(draws: Draws, classes: np.ndarray, size: int) -> np.ndarray:
    """Draws a bright outline of any turn on a dark ground, both grey."""
    share = covered(draws, *axes(size), classes, size, PLACED)
    grey = draws.integers(40, 120) + ((draws.integers(40, 120) * share) >> 8)
    return grained(draws, np.repeat(grey[:, None], 3, axis=1), channels=1)


def _hues(draws: Draws, classes: np.ndarray, size: int) -> np.ndarray:
    """Draws two to five discs of the class's hue, of any shade, on grey."""
    x, y = axes(size)
    image = np.repeat(draws.integers(40, 216)[:, None], 3, axis=1) + np.zeros((1, 1, size, size), np.int32)
    hue = (classes.astype(np.int32) * (TURN // len(HUES)))[:, None, None]
    count = draws.integers(2, 6)
    for number in range(5):
        disc = colour(hue + draws.integers(-40, 41), draws.integers(100, 220), draws.integers(90, 240))
        radius = draws.integers(FRAME // 5, FRAME // 2)
        dx, dy = (axis - draws.integers(-FRAME * 3 // 4, FRAME * 3 // 4) for axis in (x, y))
        inside = ((dx >> 2) ** 2 + (dy >> 2) ** 2 < (radius >> 2) ** 2) & (number < count)
        image = np.where(inside[:, None], disc, image)
    return grained(draws, image)


GENERATED: dict[str, tuple[tuple[str, ...], Draw]] = {
    "textures": (tuple(TEXTURES), _textures),
    "outlines": (tuple(OUTLINES), _outlines),
    "hues": (HUES, _hues),
}
