"""RandAugment of whole batches: each image has its own operators, and each operator its own magnitude.

Images are RGB in [0, 1]. Operators equal those of torchvision's RandAugment on equal parameters: nearest pixels, black
beyond the border. Those that move pixels are one resampling for all images that have one.

Source: Cubuk et al. 2019, arXiv:1909.13719, Section 3; Tian et al. 2020, arXiv:2005.10243, Section 7.2 (RA-CJ-Blur).
"""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from annulus.views.colour import brightness, contrast, saturation
from annulus.views.settings import RandAugmentSettings

Images = Float[Tensor, "b 3 h w"]

MOVES = ("shear x", "shear y", "translate x", "translate y", "rotate")
OPERATORS = (
    *("identity", *MOVES, "brightness", "color", "contrast", "sharpness"),
    *("posterize", "solarize", "autocontrast", "equalize"),
)
MOST = 30.0  # magnitudes are 0 to 30
SHEAR, SHIFT, TURN, BLEND = 0.3, 150 / 331, math.radians(30), 0.9  # at the most: SHIFT is a share of the side
LEVELS = 256 - 1e-3  # so that 1 is level 255


class RandAugment(NamedTuple):
    """Which operators each image gets, one after the other: numbers of OPERATORS, and magnitudes with a sign."""

    operators: Int[Tensor, "b n"]
    magnitudes: Float[Tensor, "b n"]  # in [-1, 1], of the most that an operator has


def draw_randaugment(params: RandAugmentSettings, count: int, generator: torch.Generator) -> RandAugment:
    """Draw the operators of `count` images: all alike likely, magnitudes normal about the chosen one, either sign.

    What is left out by `probability` is the identity.
    """
    shape = count, params.operators
    operators = torch.randint(len(OPERATORS), shape, generator=generator)
    magnitudes = params.magnitude + params.spread * torch.randn(shape, generator=generator)
    signs = 1 - 2 * torch.randint(2, shape, generator=generator)
    left_out = torch.rand(shape, generator=generator) >= params.probability
    operators = operators.masked_fill(left_out, OPERATORS.index("identity"))
    return RandAugment(operators, signs * magnitudes.clamp(0, MOST) / MOST)


def randaugment_(images: Images, drawn: RandAugment) -> Images:
    """Apply drawn operators, in place; `drawn` is on the CPU, so that nobody asks a GPU which images have which."""
    for operators, magnitudes in zip(drawn.operators.unbind(1), drawn.magnitudes.unbind(1), strict=True):
        matrices = torch.eye(2, 3).repeat(len(images), 1, 1)
        moved = torch.zeros(len(images), dtype=torch.bool)
        for number, name in enumerate(OPERATORS):
            chosen = operators == number
            if name == "identity" or not chosen.any():
                continue
            if name in MOVES:
                moved |= chosen
                matrices[chosen] = _matrices(name, magnitudes[chosen], *images.shape[2:])
            else:
                rows, own = (part.to(images.device) for part in (chosen.nonzero().squeeze(1), magnitudes[chosen]))
                images[rows] = _changed(name, images[rows], own)
        if moved.any():
            rows, own = (part.to(images.device) for part in (moved.nonzero().squeeze(1), matrices[moved]))
            images[rows] = _moved(images[rows], own)
    return images


def _matrices(name: str, magnitudes: Float[Tensor, "b"], height: int, width: int) -> Float[Tensor, "b 2 3"]:
    """From a pixel's place to where it comes from, in pixels from the image's middle. Shears keep the upper left."""
    one, zero = torch.ones_like(magnitudes), torch.zeros_like(magnitudes)
    match name:
        case "shear x":
            slope = SHEAR * magnitudes
            rows = [[one, slope, slope * height / 2], [zero, one, zero]]
        case "shear y":
            slope = SHEAR * magnitudes
            rows = [[one, zero, zero], [slope, one, slope * width / 2]]
        case "translate x":
            rows = [[one, zero, -(SHIFT * width * magnitudes).trunc()], [zero, one, zero]]
        case "translate y":
            rows = [[one, zero, zero], [zero, one, -(SHIFT * height * magnitudes).trunc()]]
        case "rotate":
            cosine, sine = (TURN * magnitudes).cos(), (TURN * magnitudes).sin()
            rows = [[cosine, -sine, zero], [sine, cosine, zero]]
        case _:
            raise AssertionError(name)
    return torch.stack([torch.stack(row, dim=1) for row in rows], dim=1)


def _moved(images: Images, matrices: Float[Tensor, "b 2 3"]) -> Images:
    height, width = images.shape[2:]
    y, x = (torch.arange(side, device=images.device) + 0.5 - side / 2 for side in (height, width))
    places = torch.stack([*torch.meshgrid(x, y, indexing="xy"), torch.ones(height, width, device=images.device)])
    sources = torch.einsum("bij,jyx->byxi", matrices, places)
    sides = torch.tensor([width / 2, height / 2], device=images.device)
    return F.grid_sample(images, sources / sides, mode="nearest", align_corners=False)


def _changed(name: str, images: Images, magnitudes: Float[Tensor, "b"]) -> Images:
    factors, sizes = 1 + BLEND * magnitudes, magnitudes.abs()[:, None, None, None]
    match name:
        case "brightness":
            return brightness(images, factors)
        case "color":
            return saturation(images, factors)
        case "contrast":
            return contrast(images, factors)
        case "sharpness":
            return _sharpness(images, factors)
        case "posterize":
            levels = 2 ** (8 - (4 * sizes).round())
            return (images * levels).floor().clamp(max=levels - 1) / levels
        case "solarize":
            return torch.where(images >= 1 - sizes, 1 - images, images)
        case "autocontrast":
            low, high = images.amin(dim=(2, 3), keepdim=True), images.amax(dim=(2, 3), keepdim=True)
            flat = low == high
            return (images - low.masked_fill(flat, 0)) / (high - low).masked_fill(flat, 1)
        case "equalize":
            return _equalize(images)
        case _:
            raise AssertionError(name)


def _sharpness(images: Images, factors: Float[Tensor, "b"]) -> Images:
    """Blend with a smoothed image, whose border is the image's own: factor 1 is the image itself."""
    kernel = torch.ones(3, 3, device=images.device)
    kernel[1, 1] = 5
    smooth = images.clone()
    smooth[:, :, 1:-1, 1:-1] = F.conv2d(images, (kernel / 13).expand(3, 1, 3, 3), groups=3)
    return torch.lerp(smooth, images, factors[:, None, None, None]).clamp(0, 1)


def _equalize(images: Images) -> Images:
    """Spread the levels of each channel so that all are about as frequent, as Pillow does it with 256 levels."""
    levels = (images * LEVELS).long().flatten(2)  # (b, 3, pixels)
    counts = torch.zeros(*levels.shape[:2], 256, dtype=torch.int64, device=images.device)
    counts.scatter_add_(2, levels, torch.ones_like(levels))
    highest = levels.amax(dim=2, keepdim=True)
    step = (levels.shape[2] - counts.gather(2, highest)) // 255
    below = counts.cumsum(dim=2) - counts  # pixels of lower levels
    table = ((below + step // 2) // step.clamp(min=1)).clamp(max=255)
    told = torch.where(step > 0, table.gather(2, levels), levels)
    return (told / 255).view(images.shape).to(images.dtype)
