"""Images above the classes of their pixels, as one picture."""

from collections.abc import Sequence

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from annulus.errors import InputError
from annulus.files.images import IGNORED, ImageSet

SIDE, GAP = 60, 4  # pixels: of a picture as shown, and between pictures
# Class 0 is dark grey, the next ones take turns; ignored pixels are white.
GROUND, WHITE = (64, 64, 64), (255, 255, 255)
COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167))


def painted(masks: UInt8[Tensor, "n h w"]) -> UInt8[Tensor, "n 3 h w"]:
    """A colour for each class."""
    turns = [COLOURS[number % len(COLOURS)] for number in range(IGNORED - 1)]
    palette = torch.tensor([GROUND, *turns, WHITE], dtype=torch.uint8)
    return palette[masks.long()].permute(0, 3, 1, 2)


def mask_sheet(images: ImageSet, rows: int, columns: int) -> Image.Image:
    """The first images, rows times columns of them, each above its mask.

    Raises:
        InputError: when the images have no masks.
    """
    if images.masks is None:
        raise InputError("these images have no classes of their pixels to show")
    shown = torch.arange(min(rows * columns, len(images)))
    pairs = list(zip(images.images.take(shown), painted(images.masks[shown]), strict=True))
    sheet = Image.new("RGB", (columns * (SIDE + GAP) + GAP, rows * (2 * SIDE + 2 * GAP) + GAP), "white")
    for place, tiles in enumerate(pairs):
        top = GAP + place // columns * (2 * SIDE + 2 * GAP)
        for below, tile in enumerate(_tiles(tiles)):
            sheet.paste(tile, (GAP + place % columns * (SIDE + GAP), top + below * SIDE))
    return sheet


def _tiles(pictures: Sequence[UInt8[Tensor, "3 h w"]]) -> list[Image.Image]:
    found = [Image.fromarray(picture.permute(1, 2, 0).contiguous().numpy()) for picture in pictures]
    return [picture.resize((SIDE, SIDE), Image.Resampling.NEAREST) for picture in found]
