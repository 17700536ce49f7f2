"""Picture of the world: a video's film strip, and below it second views of several videos, by shared factors."""

from collections.abc import Sequence

from PIL import Image

from annulus.device.rng import generator
from annulus.files.sheets import sheet, tile
from annulus_lab.studies.moving_digits.digit_scenes import Scenes
from annulus_lab.studies.moving_digits.moving_digits import World

LARGER = 2  # enlargement of a frame


def film_strips(world: World, sharings: Sequence[Sequence[str]], seed: int) -> Image.Image:
    """Picture with the first view of one video on top, and a column for each video: target frame and second views."""
    frames, target = world.params.frames, world.params.target
    pairs = {" + ".join(shared): world.pairs(frames, shared, generator(seed, "film strips")) for shared in sharings}
    drawn = next(iter(pairs.values()))  # all have the same videos, and the same draws of the other factors
    first = Scenes(*(field[:frames] for field in drawn.first))
    rows = [(f"a video: frames 1 to {frames}", tiles(world, first)),
            (f"frame {target} of this one and others", tiles(world, drawn.target))]  # fmt: skip
    rows += [(f"it shares {name}", tiles(world, pair.second)) for name, pair in pairs.items()]
    return sheet(rows)


def tiles(world: World, scenes: Scenes) -> list[Image.Image]:
    """Frames as pictures."""
    return [tile(image, world.params.canvas * LARGER) for image in (world.pixels(scenes) * 255).round().byte()]
