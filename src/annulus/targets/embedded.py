"""Targets without files: scikit-learn's digits, and generated images whose classes are none of the data set `shapes`.

`textures` are patterns of eight kinds at any turn over the whole image, `outlines` five outlines in grey at any turn,
`hues` twelve hues of patches of any place and number. The same bytes on every machine.
"""

from collections.abc import Callable, Mapping

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.compute.rng import derive
from annulus.datasets.downloads import resized
from annulus.datasets.draws import Draws, cosine_sine
from annulus.datasets.outlines import ONE, OUTLINES, SPAN
from annulus.datasets.shapes import TURN, colour
from annulus.datasets.source import Source

FRAME = 2**14  # half of the picture's side, in the units of its coordinates
UNSEEN = 500  # of scikit-learn's digits, the last ones, for testing; the first 1,297 are for training
IMAGES = {"train": 20_000, "test": 5_000}  # of a generated target where no limit is given
HUES = tuple(f"hue-{30 * number}" for number in range(12))  # degrees

Plane = np.ndarray  # int32, (n, size, size) or what broadcasts to it
Draw = Callable[[Draws, np.ndarray, int], np.ndarray]  # rows' streams, their classes, pixels a side -> (n, 3, h, w)


def open_digits(image_size: int) -> dict[str, Source]:
    """scikit-learn's 1,797 digits of 8 x 8 pixels, enlarged."""
    from sklearn.datasets import load_digits  # a second, which other targets save

    found = load_digits()
    pixels = (torch.from_numpy(found.images) * (255 / 16)).round().byte()
    labels, border = torch.from_numpy(found.target).long(), len(found.target) - UNSEEN

    def source(part: slice) -> Source:
        def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
            return resized(pixels[part][rows][:, None], image_size).expand(-1, 3, -1, -1).contiguous(), {}

        return Source(tuple("0123456789"), labels[part], read)

    return {"train": source(slice(border)), "test": source(slice(border, None))}


def open_generated(target: str, image_size: int, limits: Mapping[str, int | None], seed: int) -> dict[str, Source]:
    """A generated target; its classes take turns, so a part is balanced whatever its length."""
    classes, draw = GENERATED[target]

    def source(split: str) -> Source:
        labels = np.arange(limits[split] or IMAGES[split]) % len(classes)
        key = derive(seed, target, split)

        def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
            chosen = rows.numpy()
            return torch.from_numpy(draw(Draws(key, chosen), labels[chosen], image_size)), {}

        return Source(classes, torch.from_numpy(labels), read)

    return {split: source(split) for split in IMAGES}


def _wave(p: Plane) -> Plane:
    """A triangle wave of period 1024 between -256 and 256."""
    return abs((p & 1023) - 512) - 256


# Each of coordinates along and across its direction, in 1/1024 of a period; heights from -256 to 256.
TEXTURES: dict[str, Callable[[Plane, Plane], Plane]] = {
    "stripes": lambda p, q: _wave(p),
    "checks": lambda p, q: np.clip((_wave(p) * _wave(q)) >> 6, -256, 256),
    "dots": lambda p, q: np.clip(_wave(p) + _wave(q) - 128, -256, 256),
    "grid": lambda p, q: np.maximum(abs(_wave(p)), abs(_wave(q))) * 2 - 256,
    "bricks": lambda p, q: np.clip(np.minimum(abs(_wave(p + ((q >> 10) & 1) * 512)), abs(_wave(q))) * 4, 0, 512) - 256,
    "zigzag": lambda p, q: _wave(p + _wave(q)),
    "weave": lambda p, q: np.where(((p >> 9) + (q >> 9)) & 1, _wave(2 * p), _wave(2 * q)),
    "scales": lambda p, q: _wave(q + (_wave(p + ((q >> 10) & 1) * 512) ** 2 >> 7)),
}


def _textures(draws: Draws, classes: np.ndarray, size: int) -> np.ndarray:
    """A pattern over the whole image, of any turn, period and two colours."""
    x, y = _axes(size)
    periods = draws.integers(4 * 256, 8 * 256)  # in the picture's width, in 1/512: 2 to 4
    along, across = ((turned * periods) >> 12 for turned in cosine_sine(draws.integers(0, 1024)))
    p = ((along * x + across * y) >> 14) + draws.integers(0, 2048)
    q = ((along * y - across * x) >> 14) + draws.integers(0, 2048)
    height = np.empty_like(p)
    for number, texture in enumerate(TEXTURES.values()):
        height[classes == number] = texture(p[classes == number], q[classes == number])
    dark = colour(draws.integers(0, TURN), draws.integers(0, 160), draws.integers(30, 110))
    bright = colour(draws.integers(0, TURN), draws.integers(0, 160), draws.integers(140, 240))
    return _grained(draws, dark + ((bright - dark) * (height[:, None] + 256) >> 9), size)


def _outlines(draws: Draws, classes: np.ndarray, size: int) -> np.ndarray:
    """A bright outline of any turn on a dark ground, both grey."""
    x, y = _axes(size)
    spans = np.array([round(SPAN[name] * 256) for name in OUTLINES], np.int32)
    radius = (draws.integers(FRAME * 45 // 100, FRAME * 70 // 100) * spans[classes][:, None, None]) >> 8
    cosine, sine = (turned * FRAME // radius for turned in cosine_sine(draws.integers(0, 1024)))
    dx, dy = x - draws.integers(-FRAME // 5, FRAME // 5), y - draws.integers(-FRAME // 5, FRAME // 5)
    u = np.clip((dx * cosine + dy * sine) >> 14, -4 * ONE, 4 * ONE)
    v = np.clip((dy * cosine - dx * sine) >> 14, -4 * ONE, 4 * ONE)
    depth = np.empty_like(u)
    for number, outline in enumerate(OUTLINES.values()):
        depth[classes == number] = outline(u[classes == number], v[classes == number])
    covered = np.clip(128 + ((np.clip(depth, -2 * ONE, 2 * ONE) * (radius * size // (FRAME // 8))) >> 8), 0, 256)
    grey = draws.integers(40, 120) + ((draws.integers(40, 120) * covered) >> 8)
    return _grained(draws, np.repeat(grey[:, None], 3, axis=1), size, channels=1)


def _hues(draws: Draws, classes: np.ndarray, size: int) -> np.ndarray:
    """Two to five discs of the class's hue, of any shade, on grey."""
    x, y = _axes(size)
    image = np.repeat(draws.integers(40, 216)[:, None], 3, axis=1) + np.zeros((1, 1, size, size), np.int32)
    hue = (classes.astype(np.int32) * (TURN // len(HUES)))[:, None, None]
    count = draws.integers(2, 6)
    for number in range(5):
        disc = colour(hue + draws.integers(-40, 41), draws.integers(100, 220), draws.integers(90, 240))
        radius = draws.integers(FRAME // 5, FRAME // 2)
        dx, dy = (axis - draws.integers(-FRAME * 3 // 4, FRAME * 3 // 4) for axis in (x, y))
        inside = ((dx >> 2) ** 2 + (dy >> 2) ** 2 < (radius >> 2) ** 2) & (number < count)
        image = np.where(inside[:, None], disc, image)
    return _grained(draws, image, size)


def _axes(size: int) -> tuple[Plane, Plane]:
    axis = ((2 * np.arange(size, dtype=np.int32) + 1 - size) * FRAME) // size
    return axis[None, None, :], axis[None, :, None]


def _grained(draws: Draws, image: np.ndarray, size: int, channels: int = 3) -> np.ndarray:
    """With grain of up to 8 levels, drawn for each of so many channels."""
    shifts = np.array([0, 16, 32][:channels], np.uint64)[:, None, None]
    grain = draws.words(size * size).reshape(-1, 1, size, size) >> shifts
    return np.clip(image + (grain & np.uint64(15)).astype(np.int32) - 8, 0, 255).astype(np.uint8)


GENERATED: dict[str, tuple[tuple[str, ...], Draw]] = {
    "textures": (tuple(TEXTURES), _textures),
    "outlines": (tuple(OUTLINES), _outlines),
    "hues": (HUES, _hues),
}
