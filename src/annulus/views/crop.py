"""Random resized crops and flips of whole batches.

Resizing is linear along each axis, so a crop, its resizing and its flip are two small matrices per image. The view is
rows @ image @ columns^T: two batched matrix products. For large images these products mostly multiply zeros, so a
CPU resizes large images one by one.
"""

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
import torch.nn.functional as F
from annotated_types import Ge, Le
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from annulus.errors import InputError
from annulus.settings import Section

TRIES = 10  # boxes drawn before the fallback, as in torchvision
# Image side times view side, in pixels, from which a CPU crops faster image by image than by dense matrices.
LARGE = 64 * 64


class CropBoxes(NamedTuple):
    """One box per image, in pixels: rows [top, top + height), columns [left, left + width)."""

    top: Int[Tensor, "b"]
    left: Int[Tensor, "b"]
    height: Int[Tensor, "b"]
    width: Int[Tensor, "b"]


@dataclass(frozen=True, kw_only=True)
class Crop(Section):
    """Random resized crop, with limits of its share of the image's area and of its aspect ratio (width over height).

    >>> import torch
    >>> from annulus.views import Crop
    >>> crop = Crop(scale_min=0.25, scale_max=0.25, ratio_min=1.0, ratio_max=1.0)
    >>> crop.draw(torch.tensor([[40, 40]]), torch.Generator()).height
    tensor([20])

    Source: torchvision's RandomResizedCrop.get_params; Szegedy et al. 2015, arXiv:1409.4842, Section 6.

    Raises:
        InputError: if a lower limit is above its upper limit.
    """

    scale_min: Annotated[float, Ge(1e-6), Le(1)]
    scale_max: Annotated[float, Ge(1e-6), Le(1)]
    ratio_min: Annotated[float, Ge(0.001), Le(1000)]
    ratio_max: Annotated[float, Ge(0.001), Le(1000)]

    def __post_init__(self) -> None:
        super().__post_init__()
        for low, high in (("scale_min", "scale_max"), ("ratio_min", "ratio_max")):
            if getattr(self, low) > getattr(self, high):
                raise InputError(f"needs {low} <= {high}, got {getattr(self, low)} and {getattr(self, high)}")

    def draw(self, sizes: Int[Tensor, "b 2"], generator: torch.Generator) -> CropBoxes:
        """Draws a box inside each image; `sizes` are the images' heights and widths in pixels.

        The box's share of the image's area is uniform, its aspect ratio (width over height) log-uniform, and its place
        uniform. The first of ten tries that fits is used. If none fits, the box is the largest central one with an
        allowed aspect ratio.
        """
        count, limits = len(sizes), sizes.T  # heights, then widths: few operations, since each costs a GPU's host time
        area = torch.empty(count, TRIES)
        area.uniform_(self.scale_min, self.scale_max, generator=generator).mul_(limits.prod(dim=0)[:, None])
        aspect = torch.empty_like(area)
        aspect.uniform_(math.log(self.ratio_min), math.log(self.ratio_max), generator=generator).exp_()
        place = torch.rand(2, count, generator=generator)

        sides = torch.stack([area / aspect, area * aspect]).sqrt_().round_()
        fits = ((sides > 0) & (sides <= limits[:, :, None])).all(dim=0)
        any_fits, first = fits.max(dim=1)  # the first maximum: the earliest try that fits
        box = sides.gather(2, first.expand(2, count)[:, :, None]).squeeze(2)
        # place < 1, so the floor is at most the last corner.
        corner = (place * (limits - box + 1)).floor_()
        if not any_fits.all():
            central = torch.stack(self.central_box(*limits))
            box, corner = box.where(any_fits, central), corner.where(any_fits, (limits - central) // 2)
        return CropBoxes(*torch.cat([corner, box]).long())

    def central_box(
        self, height: Int[Tensor, "b"], width: Int[Tensor, "b"]
    ) -> tuple[Int[Tensor, "b"], Int[Tensor, "b"]]:
        """Height and width of the largest box with an allowed aspect ratio."""
        ratio = width.double() / height
        lower = (width.double() / self.ratio_min).round().long().where(ratio < self.ratio_min, height)
        narrower = (height.double() * self.ratio_max).round().long().where(ratio > self.ratio_max, width)
        return lower.clamp(min=1), narrower.clamp(min=1)


def center_boxes(sizes: Int[Tensor, "b 2"], size: int) -> CropBoxes:
    """Boxes of the middle size x size pixels of each image, as in `center_crop`.

    Raises:
        InputError: if an image is smaller.
    """
    check_fits(int(sizes[:, 0].min()), int(sizes[:, 1].min()), size)
    top, left = ((sizes - size).double() / 2).round().long().unbind(1)
    return CropBoxes(top, left, torch.full_like(top, size), torch.full_like(left, size))


def resized_crop(
    images: Shaped[Tensor, "b c h w"], boxes: CropBoxes, mirrored: Int[Tensor, "_"], size: int
) -> Float[Tensor, "b c {size} {size}"]:
    """Cuts each image's box, resizes it to size x size, and mirrors the images numbered in `mirrored` left to right.

    It equals torchvision's resized_crop with bilinear interpolation and antialias, followed by a flip. uint8 images
    are scaled to [0, 1] (large ones on a CPU are rounded to 8 bits); float images keep their scale.
    """
    scale = 1 if images.is_floating_point() else 1 / 255
    if images.device.type == "cpu" and max(images.shape[2:]) * size > LARGE:
        return _one_by_one(images, boxes, mirrored, size).mul_(scale)
    b, c, h, w = images.shape
    start, length = torch.cat([boxes.top, boxes.left]), torch.cat([boxes.height, boxes.width])
    rows, columns = resize_matrices(start, length, max(h, w), size).chunk(2)
    columns.index_copy_(0, mirrored, columns.index_select(0, mirrored).flip(1))
    rows.mul_(scale)  # here rather than on the images: this tensor is a third as large
    # One product per image, not per channel. A shorter axis does not use the last columns of its matrix.
    wide = images.float().reshape(b, c * h, w) @ columns[:, :, :w].mT
    return rows[:, None, :, :h] @ wide.view(b, c, h, size)


def _one_by_one(
    images: Shaped[Tensor, "b c h w"], boxes: CropBoxes, mirrored: Int[Tensor, "_"], size: int
) -> Float[Tensor, "b c {size} {size}"]:
    """`resized_crop` on the images' own scale, by one call per image."""
    result = torch.empty(*images.shape[:2], size, size)
    mirrored = set(mirrored.tolist())
    for number, box in enumerate(zip(*(field.tolist() for field in boxes), strict=True)):
        view = resized(images[number], box, size)
        result[number] = view.flip(2) if number in mirrored else view
    return result


def resized(
    image: Shaped[Tensor, "c h w"], box: tuple[int, int, int, int], size: int
) -> Shaped[Tensor, "c {size} {size}"]:
    """Resizes one image's box (top, left, height, width), without the matrices' zeros. Values keep their scale.

    A uint8 image is resized in 8 bits, as in Pillow and torchvision: half the time of floating point, and each value
    within one level of 255.
    """
    top, left, height, width = box
    part = image[None, :, top : top + height, left : left + width]
    part = part if image.dtype == torch.uint8 else part.float()
    return F.interpolate(part, (size, size), mode="bilinear", antialias=True)[0]


def resize_matrices(
    start: Int[Tensor, "b"], length: Int[Tensor, "b"], pixels: int, size: int
) -> Float[Tensor, "b {size} {pixels}"]:
    """Matrices that resize the part [start, start + length) of `pixels` values to `size` values.

    Output i is centred at start + (i + 1/2) length / size and weighs the part's pixels by a triangle around it. The
    triangle reaches one pixel to either side if the part grows, length / size if it shrinks. start 0 and length = size
    = pixels give the identity.

    Source: Pillow's Resample.c. torchvision's antialias follows it.
    """
    start, length = start[:, None], length[:, None]
    step = length / size
    order = torch.arange(0.5, size, device=start.device)
    pixel = torch.arange(0.5, pixels, device=start.device)
    inside = (pixel > start) & (pixel < start + length)

    weights = pixel - (start + step * order)[:, :, None]  # (b, size, pixels)
    weights.abs_().div_(-step.clamp_min(1)[:, :, None]).add_(1).clamp_min_(0).mul_(inside[:, None])
    return weights.div_(weights.sum(dim=2, keepdim=True))


def center_crop(images: Shaped[Tensor, "b c h w"], size: int) -> Shaped[Tensor, "b c {size} {size}"]:
    """The middle size x size pixels (a view of `images`), as in torchvision's center_crop.

    Raises:
        InputError: if the images are smaller.
    """
    top, left = middle(*images.shape[2:], size)
    return images[:, :, top : top + size, left : left + size]


def middle(height: int, width: int, size: int) -> tuple[int, int]:
    """The first row and column of the middle size x size pixels.

    Raises:
        InputError: if the image is smaller.
    """
    check_fits(height, width, size)
    return round((height - size) / 2), round((width - size) / 2)


def check_fits(height: int, width: int, size: int) -> None:
    """Raises InputError if images are smaller than a view of size x size pixels.

    Raises:
        InputError: with both sizes.
    """
    if size > min(height, width):
        raise InputError(
            f"a centre crop of {size} x {size} does not fit images of {height} x {width} pixels (height x "
            f"width); lower the view's size to {min(height, width)} or raise the images' to {size}"
        )
