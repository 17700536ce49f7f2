"""Colour spaces of whole batches, from sRGB images in [0, 1]. Most separate lightness or luma from colour.

All are differentiable, except HSV at greys and where two channels are equal. They are computed in float32 at least,
since bfloat16 has steps of 1 to 2 in CIELAB. Autocast lowers a matrix product, so these operations use none.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

Rgb = Float[Tensor, "b 3 h w"]
Planes = Float[Tensor, "b 3 h w"]

# Linear sRGB to XYZ (IEC 61966-2-1, to seven digits). Divided by the XYZ of its white D65, white is (1, 1, 1).
RGB_TO_XYZ = ((0.4124564, 0.3575761, 0.1804375), (0.2126729, 0.7151522, 0.0721750), (0.0193339, 0.1191920, 0.9503041))
OVER_WHITE = tuple(tuple(weight / sum(row) for weight in row) for row in RGB_TO_XYZ)
DARK = 0.04045  # below, sRGB is linear
BEND = 6 / 29  # below its cube, CIELAB replaces the cube root by its tangent

# From gamma-corrected RGB, with the luma weights of ITU-R BT.601. The second and third row sum to 0.
RGB_TO_YDBDR = ((0.299, 0.587, 0.114), (-0.450, -0.883, 1.333), (-1.333, 1.116, 0.217))
RGB_TO_YUV = ((0.299, 0.587, 0.114), (-0.14713769, -0.28886231, 0.436), (0.615, -0.51498573, -0.10001427))
RGB_TO_YIQ = ((0.299, 0.587, 0.114), (0.59590059, -0.27455667, -0.32134392), (0.21153661, -0.52273617, 0.31119955))


def rgb_to_lab(images: Rgb) -> Planes:
    """CIELAB: L in [0, 100], a in about [-86, 98], b in about [-108, 94]; white is (100, 0, 0).

    Source: IEC 61966-2-1 (sRGB, D65); CIE 15 (L*a*b*).
    """
    # Each curve is a power above its bend and a line below it, and the two meet there. So the sum of the power of the
    # value clamped from below and the line of the rest is the curve; it is faster than `where`.
    ratios = _mixed(_linear(images), OVER_WHITE)
    root = ratios.clamp_min(BEND**3).pow(1 / 3)
    x, y, z = root.add_(ratios.clamp_max(BEND**3) - BEND**3, alpha=1 / (3 * BEND**2)).unbind(dim=1)
    return torch.stack([y * 116 - 16, (x - y) * 500, (y - z) * 200], dim=1)


def rgb_to_xyz(images: Rgb) -> Planes:
    """CIE XYZ, each in [0, 1.09]; white is (0.950, 1, 1.089).

    Source: IEC 61966-2-1 (sRGB, D65).
    """
    return _mixed(_linear(images), RGB_TO_XYZ)


def rgb_to_ydbdr(images: Rgb) -> Planes:
    """SECAM's luma in [0, 1] and colour differences in [-1.333, 1.333].

    Source: ITU-R BT.470 (SECAM, PAL, NTSC).
    """
    return _mixed(_float(images), RGB_TO_YDBDR)


def rgb_to_yuv(images: Rgb) -> Planes:
    """PAL's luma in [0, 1], U in [-0.436, 0.436], V in [-0.615, 0.615].

    Source: ITU-R BT.470 (SECAM, PAL, NTSC).
    """
    return _mixed(_float(images), RGB_TO_YUV)


def rgb_to_yiq(images: Rgb) -> Planes:
    """NTSC's luma in [0, 1], I in [-0.596, 0.596], Q in [-0.523, 0.523].

    Source: ITU-R BT.470 (SECAM, PAL, NTSC).
    """
    return _mixed(_float(images), RGB_TO_YIQ)


def rgb_to_hsv(images: Rgb) -> Planes:
    """Hue in [0, 1] of a turn, 0 for a grey; saturation and value in [0, 1]."""
    images = _float(images)
    value, saturated = images.amax(dim=1), images.amax(dim=1) - images.amin(dim=1)
    red, green, blue = images.unbind(dim=1)
    grey = saturated == 0
    spread = saturated.masked_fill(grey, 1)
    near_red, near_green, near_blue = (green - blue) / spread, 2 + (blue - red) / spread, 4 + (red - green) / spread
    turn = torch.where(value == red, near_red, torch.where(value == green, near_green, near_blue))
    saturation = saturated / value.masked_fill(value == 0, 1)
    return torch.stack([(turn / 6).remainder(1).masked_fill(grey, 0), saturation, value], dim=1)


def _float(images: Rgb) -> Rgb:
    return images.to(torch.promote_types(images.dtype, torch.float32))


class Space(NamedTuple):
    """A colour space, the names of its first channel and of the other two, and the least deviation of a channel.

    A deviation below `least` is noise: dividing by it would show an encoder the rounding of 8 bits.
    """

    from_rgb: Callable[[Rgb], Planes]
    first: str
    rest: str
    least: float


LEVEL = 1 / 510  # half a level of 8 bits
SPACES = {
    "lab": Space(rgb_to_lab, "l", "ab", 0.5),
    "ydbdr": Space(rgb_to_ydbdr, "y", "dbdr", LEVEL),
    "yuv": Space(rgb_to_yuv, "y", "uv", LEVEL),
    "yiq": Space(rgb_to_yiq, "y", "iq", LEVEL),
    "rgb": Space(_float, "r", "gb", LEVEL),
    "hsv": Space(rgb_to_hsv, "h", "sv", LEVEL),
    "xyz": Space(rgb_to_xyz, "x", "yz", LEVEL),
}


def _linear(images: Rgb) -> Rgb:
    """Linear light from sRGB's gamma-corrected values."""
    images = _float(images)
    curve = (images.clamp_min(DARK) + 0.055).div_(1.055).pow(2.4)
    return curve.add_(images.clamp_max(DARK) - DARK, alpha=1 / 12.92)


def _mixed(images: Rgb, rows: Sequence[tuple[float, float, float]]) -> Planes:
    red, green, blue = images.unbind(dim=1)
    return torch.stack([(red * r).add_(green, alpha=g).add_(blue, alpha=b) for r, g, b in rows], dim=1)
