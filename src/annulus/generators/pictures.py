"""What generators make of images: a grid of pictures, the images above, each generator's two views of them below."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from annulus.views.learned import Parts

TILE, GAP, LABEL, FONT = 40, 4, 170, 13  # pixels: a picture's side, between pictures, a row's name, its letters
SEEN = 0.01, 0.99  # quantiles of a view's channel that are shown black and white


@dataclass(frozen=True)
class Shown:
    """One row of the grid: a generator's name and its views of the images."""

    name: str
    views: Parts


def grid(images: UInt8[Tensor, "n 3 h w"], rows: list[Shown]) -> Image.Image:
    """The first view in grey; the second one's two channels as red and blue, their mean as green."""
    pair = 2 * (TILE + GAP)
    sheet = Image.new("RGB", (LABEL + len(images) * (pair + GAP), (1 + len(rows)) * (TILE + GAP) + GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(FONT)
    for line, (name, *tiles) in enumerate(
        [("image", images, images), *((row.name, *_tiles(row.views)) for row in rows)]
    ):
        top = GAP + line * (TILE + GAP)
        draw.text((GAP, top + (TILE - FONT) // 2), name, "black", font)
        for column, pictures in enumerate(zip(*tiles, strict=True)):
            for place, picture in enumerate(pictures[: 1 if line == 0 else 2]):
                left = LABEL + column * (pair + GAP) + place * (TILE + GAP)
                sheet.paste(_image(picture), (left, top))
    return sheet


def _tiles(views: Parts) -> tuple[UInt8[Tensor, "n 3 h w"], UInt8[Tensor, "n 3 h w"]]:
    first, second = (_levels(view) for view in views)
    red, blue = second.unbind(dim=1)
    return first.expand(-1, 3, -1, -1), torch.stack([red, (red.int() + blue).div(2).byte(), blue], dim=1)


def _levels(view: Float[Tensor, "n c h w"]) -> UInt8[Tensor, "n c h w"]:
    """Each channel from 0 to 255, between its quantiles over all images."""
    flat = view.transpose(0, 1).flatten(1)
    low, high = flat.quantile(torch.tensor(SEEN), dim=1).view(2, 1, -1, 1, 1)
    return ((view - low) / (high - low).clamp_min(1e-6) * 255).clamp(0, 255).byte()


def _image(picture: UInt8[Tensor, "3 h w"]) -> Image.Image:
    return Image.fromarray(picture.permute(1, 2, 0).numpy()).resize((TILE, TILE), Image.Resampling.NEAREST)
