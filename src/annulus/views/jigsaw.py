"""The jigsaw: nine patches of an image in a random order.

Source: Misra and van der Maaten 2020, arXiv:1912.01991, Section 2.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.copies import to_device
from annulus.errors import InputError

SIDE = 3  # cells along a side of the grid
CELLS = SIDE**2
PATCH_SHARE = 64 / 85  # a patch's side over its cell's, in the paper's pixels: the gap cuts edges between neighbours


def patch_side(size: int) -> int:
    """Side of a patch in pixels, for an image of this size.

    Raises:
        InputError: if a cell has fewer than two pixels a side.
    """
    if size < 2 * SIDE:
        raise InputError(f"an image of {size} px is too small for {CELLS} patches; take views of {2 * SIDE} px or more")
    return max(1, round(size // SIDE * PATCH_SHARE))


def jigsaw(
    images: Float[Tensor, "b k h h"], random: torch.Generator, batch: int, rows: slice
) -> Float[Tensor, "b 9 k p p"]:
    """Cuts a patch at a random place of each of nine cells, and orders the patches at random.

    `images` are these rows of a batch of `batch` images. The draws are for the whole batch, and `random` is on the CPU,
    so every process and device draws the same.

    Raises:
        InputError: for images that are not square.
    """
    size = images.shape[-1]
    if images.shape[-2] != size:
        raise InputError(f"images of {images.shape[-2]} x {size} pixels: give a jigsaw square views")
    cell, side = size // SIDE, patch_side(size)
    offsets = torch.randint(cell - side + 1, (2, batch, CELLS), generator=random)
    order = torch.rand(batch, CELLS, generator=random).argsort(dim=1)
    corners = torch.stack([order // SIDE, order % SIDE]) * cell + offsets  # y and x of each patch's first pixel
    [corners] = to_device([corners[:, rows]], images.device)
    y, x = (_spans(corner, side) for corner in corners)
    image = torch.arange(len(images), device=images.device)[:, None, None, None]
    return images[image, :, y[:, :, :, None], x[:, :, None, :]].permute(0, 1, 4, 2, 3)


def _spans(corners: Int[Tensor, "b 9"], side: int) -> Int[Tensor, "b 9 p"]:
    return corners[:, :, None] + torch.arange(side, device=corners.device)
