"""InfoMin's own last operators: RandAugment as in its authors' code, then greyscale.

It differs from torchvision's RandAugment (`randaugment`). It draws from 15 changes: two are new (invert, solarize add),
and the identity is missing. Brightness, contrast, colour and sharpness grow with the magnitude from 0.1 to 1.9: at the
largest they are 1.9, never 0.1. At the largest magnitude solarisation changes nothing. Moved pixels are interpolated,
and the mean colour of ImageNet fills the area beyond the border.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from jaxtyping import Bool, Float, Int
from torch import Tensor

from annulus.device.copies import to_device
from annulus.settings import Fraction
from annulus.views.colour import brightness, contrast, grayscale, saturation
from annulus.views.operators import Operator, View, changed, solarize
from annulus.views.randaugment import autocontrast, equalize, sharpness

MOVES = ("shear x", "shear y", "translate x", "translate y", "rotate")
CHANGES = (
    *("autocontrast", "equalize", "invert", "posterize", "solarize", "solarize add"),
    *("color", "contrast", "brightness", "sharpness", *MOVES),
)
MOST = 10.0  # magnitudes are 0 to 10
SHEAR, SHIFT, TURN = 0.3, 0.45, math.radians(30)  # at magnitude 10; SHIFT is a share of the side
BITS, ADDED = 4, 110  # bits that posterize keeps, and levels that solarize add adds, at magnitude 10
MEAN = (124 / 255, 116 / 255, 104 / 255)


class DrawnInfoMin(NamedTuple):
    """Drawn changes of each image, in order, and the mask of the images that become grey."""

    changes: Int[Tensor, "b n"]  # numbers in CHANGES; -1: none
    magnitudes: Float[Tensor, "b n"]  # in [0, 1], as shares of the largest
    signs: Int[Tensor, "b n"]  # of moves
    cubic: Bool[Tensor, "b n"]  # interpolation of moves; otherwise linear
    gray: Bool[Tensor, "b"]


@dataclass(frozen=True, kw_only=True)
class InfoMinRandAugment(Operator):
    """RandAugment as in the code of InfoMin's authors, then greyscale of a share of the images.

    operators: changes in sequence, each drawn from 15; magnitude: mean strength, from 0 to 10; spread: standard
    deviation of the magnitudes; probability: of applying each change; grayscale: share of the images that end grey.

    >>> import torch
    >>> from annulus.views import InfoMinRandAugment
    >>> changes = InfoMinRandAugment(operators=2, magnitude=10.0, spread=0.5, probability=0.5, grayscale=0.2)
    >>> changes(torch.rand(4, 3, 32, 32), torch.Generator().manual_seed(0)).shape
    torch.Size([4, 3, 32, 32])

    Source: Tian et al. 2020, arXiv:2005.10243, Section 7.2; HobbitLong/PyContrast, datasets/util.py (aug D).
    """

    operators: Annotated[int, Ge(1), Le(15)]
    magnitude: Annotated[float, Ge(0), Le(10)]
    spread: Annotated[float, Ge(0), Le(10)]
    probability: Fraction
    grayscale: Fraction

    def draw(self, count: int, generator: torch.Generator) -> DrawnInfoMin:
        """Draws the changes of `count` images: uniform over CHANGES, with normal magnitudes and random signs."""
        shape = count, self.operators
        changes = torch.randint(len(CHANGES), shape, generator=generator)
        magnitudes = self.magnitude + self.spread * torch.randn(shape, generator=generator)
        signs = 1 - 2 * torch.randint(2, shape, generator=generator)
        cubic = torch.rand(shape, generator=generator) < 0.5
        left_out = torch.rand(shape, generator=generator) >= self.probability
        gray = torch.rand(count, generator=generator) < self.grayscale
        return DrawnInfoMin(changes.masked_fill(left_out, -1), magnitudes.clamp(0, MOST) / MOST, signs, cubic, gray)

    def apply(self, view: View, drawn: DrawnInfoMin) -> View:
        """Returns the views, each with its own changes, in [0, 1]."""
        view = view.clone()
        for place in range(drawn.changes.shape[1]):
            changes, magnitudes = drawn.changes[:, place], drawn.magnitudes[:, place]
            for number, name in enumerate(CHANGES):
                chosen = (changes == number).nonzero().squeeze(1)
                if not len(chosen):
                    continue
                amounts = magnitudes[chosen] * (drawn.signs[chosen, place] if name in MOVES else 1)
                parts = [chosen, amounts, drawn.cubic[chosen, place], torch.tensor(MEAN)]
                rows, own, cubic, mean = to_device(parts, view.device)
                images = view[rows]
                view[rows] = _moved(name, images, own, cubic, mean) if name in MOVES else _changed(name, images, own)
        return changed(view, drawn.gray, grayscale)


def _changed(name: str, images: View, magnitudes: Float[Tensor, "b"]) -> View:
    factors, levels = 0.1 + 1.8 * magnitudes, magnitudes[:, None, None, None]
    match name:
        case "autocontrast":
            return autocontrast(images)
        case "equalize":
            return equalize(images)
        case "invert":
            return 1 - images
        case "posterize":
            step = 2 ** (8 - (BITS * levels).floor())  # 4 bits at magnitude 10, fewer below
            return ((images * 255).round() / step).floor() * step / 255
        case "solarize":
            return solarize(images, (levels * 256).floor() / 255)
        case "solarize add":
            return torch.where(images < 128 / 255, images + (levels * ADDED).floor() / 255, images).clamp(max=1)
        case "color":
            return saturation(images, factors)
        case "contrast":
            return contrast(images, factors)
        case "brightness":
            return brightness(images, factors)
        case "sharpness":
            return sharpness(images, factors)
        case _:
            raise AssertionError(name)


def _moved(
    name: str, images: View, magnitudes: Float[Tensor, "b"], cubic: Bool[Tensor, "b"], beyond: Float[Tensor, "3"]
) -> View:
    """Moves pixels, interpolated; a pixel with its source outside of the image gets the colour `beyond`."""
    height, width = images.shape[2:]
    x, y = (torch.arange(side, device=images.device) + 0.5 for side in (width, height))
    y, x = torch.meshgrid(y, x, indexing="ij")
    own = magnitudes[:, None, None]
    match name:
        case "shear x":
            x, y = x + SHEAR * own * y, y.expand(len(own), -1, -1)
        case "shear y":
            x, y = x.expand(len(own), -1, -1), y + SHEAR * own * x
        case "translate x":
            x, y = x + SHIFT * width * own, y.expand(len(own), -1, -1)
        case "translate y":
            x, y = x.expand(len(own), -1, -1), y + SHIFT * height * own
        case "rotate":
            across, down, angle = x - width / 2, y - height / 2, TURN * own
            x = angle.cos() * across - angle.sin() * down + width / 2
            y = angle.sin() * across + angle.cos() * down + height / 2
        case _:
            raise AssertionError(name)
    inside = ((x >= 0) & (x < width) & (y >= 0) & (y < height))[:, None]
    places = torch.stack([2 * x / width - 1, 2 * y / height - 1], dim=3)
    linear, curved = (
        F.grid_sample(images, places, mode=mode, padding_mode="border", align_corners=False).clamp(0, 1)
        for mode in ("bilinear", "bicubic")
    )
    moved = torch.where(cubic[:, None, None, None], curved, linear)
    return torch.where(inside, moved, beyond.to(images.dtype)[:, None, None])
