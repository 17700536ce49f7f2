"""Draws a digit on a background, as pixels."""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int64, UInt8
from torch import Tensor


class Scenes(NamedTuple):
    """Contents of frames. Corners are the upper left ones, (y, x) in whole pixels."""

    digit: Int64[Tensor, "n"]  # row of the digit's image
    ground: Int64[Tensor, "n"]  # row of the background's image
    place: Int64[Tensor, "n 2"]  # the digit's corner on the canvas
    crop: Int64[Tensor, "n 2"]  # the canvas' corner on the background image


def windows(
    images: UInt8[Tensor, "m c h h"], rows: Int64[Tensor, "n"], corners: Int64[Tensor, "n 2"], size: int
) -> UInt8[Tensor, "n c size size"]:
    """Squares of `size` pixels a side of the images `rows`, each at its corner."""
    all_windows = images.unfold(2, size, 1).unfold(3, size, 1)
    return all_windows[rows, :, corners[:, 0], corners[:, 1]]


def draw_scenes(
    scenes: Scenes, digits: UInt8[Tensor, "m d d"], grounds: UInt8[Tensor, "k 3 g g"], canvas: int
) -> Float[Tensor, "n 3 canvas canvas"]:
    """Frames in [0, 1]: the digit is white ink on the background's crop."""
    room = canvas - digits.shape[-1]
    which, row_in_padded = scenes.digit.unique(return_inverse=True)
    padded = F.pad(digits[which], (room, room, room, room))[:, None]
    ink = windows(padded, row_in_padded, room - scenes.place, canvas).float().div_(255)
    pixels = windows(grounds, scenes.ground, scenes.crop, canvas).float().div_(255)
    return torch.lerp(pixels, torch.ones(()), ink, out=pixels)
