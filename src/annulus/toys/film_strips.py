"""A picture of the world: a video's film strip, and below it, for several videos, second views by what they share."""

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw

from annulus.compute.rng import generator
from annulus.toys.digit_scenes import Scenes
from annulus.toys.moving_digits import World

LABEL, GAP, LARGER = 190, 4, 2  # pixels; how many times larger a frame is shown
Tiles = Sequence[Image.Image]


def film_strips(world: World, sharings: Sequence[Sequence[str]], seed: int) -> Image.Image:
    """First views of one video, then a column for each of as many videos: its target frame and its second views."""
    frames, target = world.params.frames, world.params.target
    pairs = {" + ".join(shared): world.pairs(frames, shared, generator(seed, "film strips")) for shared in sharings}
    drawn = next(iter(pairs.values()))  # all have the same videos, and the same draws of what is not shared
    first = Scenes(*(each[:frames] for each in drawn.first))
    rows = [(f"a video: frames 1 to {frames}", tiles(world, first)),
            (f"frame {target} of this one and others", tiles(world, drawn.target))]  # fmt: skip
    rows += [(f"it shares {name}", tiles(world, pair.second)) for name, pair in pairs.items()]
    return sheet(rows, world.params.canvas * LARGER)


def tiles(world: World, scenes: Scenes) -> Tiles:
    """Frames as pictures."""
    pixels = (world.pixels(scenes) * 255).round().byte().permute(0, 2, 3, 1).numpy()
    side = world.params.canvas * LARGER
    return [
        Image.fromarray(np.ascontiguousarray(each)).resize((side, side), Image.Resampling.NEAREST) for each in pixels
    ]


def sheet(rows: Sequence[tuple[str, Tiles]], side: int) -> Image.Image:
    """Rows of pictures, each with its label at the left."""
    step = side + GAP
    picture = Image.new("RGB", (LABEL + step * max(len(row) for _, row in rows), step * len(rows) + GAP), "white")
    pen = ImageDraw.Draw(picture)
    for place, (label, row) in enumerate(rows):
        top = GAP + place * step
        pen.text((GAP, top + side // 2 - 6), label, fill="black")
        for column, tile in enumerate(row):
            picture.paste(tile, (LABEL + column * step, top))
    return picture
