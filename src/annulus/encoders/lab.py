"""CIELAB of whole batches: lightness (L) apart from colour (a: green to red, b: blue to yellow)."""

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.errors import InputError
from annulus.files.store import Store, pieces

# XYZ of linear sRGB over XYZ of its white D65 (IEC 61966-2-1, to seven digits), so that white is (1, 1, 1).
XYZ_OF_RGB = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
WEIGHTS = tuple(tuple(weight / sum(row) for weight in row) for row in XYZ_OF_RGB)
DARK = 0.04045  # below, sRGB is linear
BEND = 6 / 29  # below its cube, CIELAB's cube root goes on as its tangent

COLOURLESS = 0.5  # standard deviation of a or b: rounding greys to 8 bits gives 0.2, one level up or down 0.6
CHUNK_PIXELS = 2**18
MOST_PIXELS = 2**27  # 2,048 images of 256 px; all of 131,072 of 32 px

Channels = tuple[float, float, float]


def rgb_to_lab(images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
    """L in [0, 100], a in about [-86, 98], b in about [-108, 94] of sRGB images in [0, 1]; white is (100, 0, 0).

    Differentiable, also at black. Computed in float32 at least: a and b are 500 and 200 times differences of numbers
    below 1, and bfloat16 would leave steps of 1 to 2. Autocast lowers none of these operations; it would lower a matrix
    product.

    Source: IEC 61966-2-1 (sRGB, D65); CIE 15 (L*a*b*).
    """
    images = images.to(torch.promote_types(images.dtype, torch.float32))
    # Either curve is a power above its bend and a line below it. They meet there, so that the power of what is
    # clamped from below and the line of the rest add up, at less than the price of `where`.
    curve = (images.clamp_min(DARK) + 0.055).div_(1.055).pow(2.4)
    red, green, blue = curve.add_(images.clamp_max(DARK) - DARK, alpha=1 / 12.92).unbind(dim=1)
    ratios = torch.stack([(red * r).add_(green, alpha=g).add_(blue, alpha=b) for r, g, b in WEIGHTS], dim=1)
    root = ratios.clamp_min(BEND**3).pow(1 / 3)
    x, y, z = root.add_(ratios.clamp_max(BEND**3) - BEND**3, alpha=1 / (3 * BEND**2)).unbind(dim=1)
    return torch.stack([y * 116 - 16, (x - y) * 500, (y - z) * 200], dim=1)


@torch.no_grad()
def lab_statistics(images: Store) -> tuple[Channels, Channels]:
    """Mean and standard deviation of L, a and b over the pixels of a data set, in CIELAB's units.

    Of more than `MOST_PIXELS`, those of some images, always the same ones. A standard deviation is at least 0.5:
    dividing by less would show an encoder the rounding of 8 bits.

    Raises:
        InputError: when the images are grey.
    """
    total, squares = torch.zeros(2, 3, dtype=torch.float64, device=images.device)
    chosen, pixels = torch.arange(len(images)), 0
    if (most := MOST_PIXELS // images.side**2) < len(images):
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:most].sort().values
    for index, chunk in images.in_turn(chosen.split(max(1, CHUNK_PIXELS // images.side**2))):
        for part in pieces(chunk, images.sizes_of(index)):
            lab = rgb_to_lab(part.float().div_(255)).double()
            total += lab.sum(dim=(0, 2, 3))
            squares += lab.square_().sum(dim=(0, 2, 3))
            pixels += lab[:, 0].numel()
    mean = total / pixels
    std = (squares / pixels - mean**2).clamp_min(0).sqrt()
    if (std[1:] < COLOURLESS).all():
        raise InputError(
            "method: cmc contrasts lightness (L) with colour (a, b), but the images of this data set have no colour: "
            f"a and b deviate by {std[1]:.2f} and {std[2]:.2f} from their means, below {COLOURLESS}; "
            "take method: ir, or a data set in colour"
        )
    return tuple(mean.tolist()), tuple(std.clamp_min(COLOURLESS).tolist())
