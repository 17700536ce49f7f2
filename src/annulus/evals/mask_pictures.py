"""Pictures of images above the classes of their pixels."""

from collections.abc import Mapping

import torch
from jaxtyping import UInt8
from PIL import Image
from torch import Tensor

from annulus.errors import InputError
from annulus.files.images import IGNORED, ImageSet
from annulus.files.sheets import SheetRow, sheet, tile

SIDE, LARGE = 60, 160  # pixels a side of a picture
# Class 0 is dark grey, the next classes repeat these colours; ignored pixels are white.
GROUND, WHITE = (64, 64, 64), (255, 255, 255)
COLOURS = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (240, 228, 66), (0, 114, 178), (213, 94, 0), (204, 121, 167))


def painted(masks: UInt8[Tensor, "n h w"]) -> UInt8[Tensor, "n 3 h w"]:
    """Paints each pixel in the colour of its class."""
    turns = [COLOURS[number % len(COLOURS)] for number in range(IGNORED - 1)]
    palette = torch.tensor([GROUND, *turns, WHITE], dtype=torch.uint8)
    return palette[masks.long()].permute(0, 3, 1, 2)


def predicted_sheet(images: ImageSet, predicted: Mapping[str, UInt8[Tensor, "n h w"]]) -> Image.Image:
    """Images above their masks, and below them each encoder's predicted classes."""
    rows = {"images": images.images.take(torch.arange(len(images))), "classes": painted(images.masks)}
    rows |= {name: painted(masks) for name, masks in predicted.items()}
    return sheet([(name, [tile(picture, LARGE) for picture in pictures]) for name, pictures in rows.items()])


def mask_sheet(images: ImageSet, rows: int, columns: int) -> Image.Image:
    """The first rows x columns images, each above its mask.

    Raises:
        InputError: if the images have no masks.
    """
    if images.masks is None:
        raise InputError("these images have no classes of their pixels to show")
    sheet_rows: list[SheetRow] = []
    for index in torch.arange(min(rows * columns, len(images))).split(columns):
        for name, pictures in (("images", images.images.take(index)), ("classes", painted(images.masks[index]))):
            sheet_rows.append((name, [tile(picture, SIDE) for picture in pictures]))
    return sheet(sheet_rows)
