"""Grid of pictures: images in the first row, each generator's two views of them below."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from annulus.files.sheets import sheet, tile
from annulus.views.learned import Parts

TILE = 40  # pixels: a picture's side
QUANTILES = 0.01, 0.99  # of a view's channel: black and white


@dataclass(frozen=True)
class GeneratedViews:
    """One row of the grid: a generator's name and its views of the images."""

    name: str
    views: Parts


def grid(images: UInt8[Tensor, "n 3 h w"], rows: list[GeneratedViews]) -> Image.Image:
    """Grid of views: the first view in grey; the second view's channels as red and blue, their mean as green."""
    alone = [picture for image in images for picture in (tile(image, TILE), None)]
    pairs = [[tile(part, TILE) for both in zip(*_tiles(row.views), strict=True) for part in both] for row in rows]
    return sheet([("image", alone), *zip([row.name for row in rows], pairs, strict=True)], together=2)


def _tiles(views: Parts) -> tuple[UInt8[Tensor, "n 3 h w"], UInt8[Tensor, "n 3 h w"]]:
    first, second = (_levels(view) for view in views)
    red, blue = second.unbind(dim=1)
    return first.expand(-1, 3, -1, -1), torch.stack([red, (red.int() + blue).div(2).byte(), blue], dim=1)


def _levels(view: Float[Tensor, "n c h w"]) -> UInt8[Tensor, "n c h w"]:
    """Scales each channel to 0 to 255, between its quantiles over all images."""
    flat = view.transpose(0, 1).flatten(1)
    low, high = flat.quantile(torch.tensor(QUANTILES), dim=1).view(2, 1, -1, 1, 1)
    return ((view - low) / (high - low).clamp_min(1e-6) * 255).clamp(0, 255).byte()
