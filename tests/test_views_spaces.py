"""Colour spaces: the published formulas pixel by pixel, and known colours."""

import colorsys

import pytest
import torch

from annulus.views.spaces import SPACES, rgb_to_lab

WHITE = (0.95047, 1.0, 1.08883)  # D65, 2 degree observer


def pixel_to_lab(rgb):
    """L*, a*, b* of one sRGB colour in Python's floats: companding, XYZ, CIELAB, with their cases written out."""
    r, g, b = (value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in rgb)
    xyz = (
        0.4124564 * r + 0.3575761 * g + 0.1804375 * b,
        0.2126729 * r + 0.7151522 * g + 0.0721750 * b,
        0.0193339 * r + 0.1191920 * g + 0.9503041 * b,
    )

    def f(t):
        return t ** (1 / 3) if t > 216 / 24389 else (24389 / 27 * t + 16) / 116

    fx, fy, fz = (f(value / white) for value, white in zip(xyz, WHITE, strict=True))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def by_pixel(images, formula=pixel_to_lab):
    """Applies `formula` to each pixel of a batch (b, 3, h, w)."""
    pixels = [formula(pixel) for pixel in images.double().movedim(1, -1).reshape(-1, 3).tolist()]
    return torch.tensor(pixels, dtype=torch.float64).view(len(images), *images.shape[2:], 3).movedim(-1, 1)


def test_every_pixel_is_what_the_cie_formulas_say(generator):
    images = torch.rand(4, 3, 5, 7, generator=generator)
    images[1] *= 0.08  # near the bend of sRGB's curve, and below the bend of CIELAB's
    images[2] *= torch.rand(3, 5, 7, generator=generator) > 0.5  # colours of the gamut's faces and edges
    torch.testing.assert_close(rgb_to_lab(images).double(), by_pixel(images), atol=5e-4, rtol=0)
    torch.testing.assert_close(rgb_to_lab(images.double()), by_pixel(images), atol=2e-5, rtol=0)


def test_known_colours():
    for rgb, expected in (
        ((1.0, 1.0, 1.0), (100.0, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        ((1.0, 0.0, 0.0), (53.24, 80.09, 67.20)),
        ((1.0, 1.0, 0.0), (97.14, -21.55, 94.48)),
        ((119 / 255, 119 / 255, 119 / 255), (50.03, 0.0, 0.0)),  # photographers' middle grey
    ):
        lab = rgb_to_lab(torch.tensor(rgb).view(1, 3, 1, 1)).flatten()
        torch.testing.assert_close(lab, torch.tensor(expected), atol=6e-3, rtol=0)


def test_gradients_are_right_and_finite_at_black(generator):
    images = torch.rand(1, 3, 2, 3, dtype=torch.float64, generator=generator) * 0.9 + 0.05
    images[..., 0] *= 0.1
    assert torch.autograd.gradcheck(rgb_to_lab, images.requires_grad_())
    black = torch.zeros(1, 3, 1, 1, requires_grad=True)
    rgb_to_lab(black)[:, 0].sum().backward()
    # At black both curves are lines: dL/dv of one channel is 24389 / 27 / 12.92 times its share of Y.
    expected = torch.tensor([0.2126729, 0.7151522, 0.0721750]) * 24389 / 27 / 12.92
    torch.testing.assert_close(black.grad.flatten(), expected, atol=1e-3, rtol=1e-4)


# Each row's weights of R, G and B, as printed: ITU-R BT.470 (SECAM, PAL, NTSC), IEC 61966-2-1.
PRINTED = {
    "ydbdr": [[0.299, 0.587, 0.114], [-0.450, -0.883, 1.333], [-1.333, 1.116, 0.217]],
    "yuv": [[0.299, 0.587, 0.114], [-0.147, -0.289, 0.436], [0.615, -0.515, -0.100]],
    "yiq": [[0.299, 0.587, 0.114], [0.596, -0.275, -0.321], [0.212, -0.523, 0.311]],
}


@pytest.mark.usefixtures("in_float64")
@pytest.mark.parametrize("space", PRINTED)
def test_linear_spaces_are_the_printed_matrices_and_can_be_undone(space):
    exact = SPACES[space].from_rgb(torch.eye(3).view(3, 3, 1, 1))[..., 0, 0].T
    torch.testing.assert_close(exact, torch.tensor(PRINTED[space]), atol=1e-3, rtol=0)
    assert torch.linalg.matrix_rank(exact) == 3
    grey = SPACES[space].from_rgb(torch.full((1, 3, 1, 1), 0.5)).flatten()
    torch.testing.assert_close(grey, torch.tensor([0.5, 0, 0]), atol=1e-7, rtol=0)


def test_hue_saturation_and_value_are_those_of_python_s_own_module(generator):
    images = torch.rand(2, 3, 5, 6, generator=generator, dtype=torch.float64)
    images[0, :, 0] = images[0, :1, 0]  # greys
    images[0, :, 1, 0], images[0, 1, 1, 1] = 0, images[0, 0, 1, 1]  # black; two channels equal
    expected = by_pixel(images, lambda pixel: colorsys.rgb_to_hsv(*pixel))
    torch.testing.assert_close(SPACES["hsv"].from_rgb(images), expected)


def test_xyz_is_half_way_to_lab(generator):
    images = torch.rand(2, 3, 5, 6, generator=generator, dtype=torch.float64)
    ratios = SPACES["xyz"].from_rgb(images) / torch.tensor(WHITE, dtype=torch.float64).view(1, 3, 1, 1)
    torch.testing.assert_close(116 * ratios[:, 1] ** (1 / 3) - 16, by_pixel(images)[:, 0], atol=1e-4, rtol=0)
    torch.testing.assert_close(SPACES["xyz"].from_rgb(torch.ones(1, 3, 1, 1)).flatten(), torch.tensor(WHITE))


@pytest.mark.parametrize("space", SPACES)
def test_no_space_changes_its_images_or_rounds_them(space, generator):
    images = torch.rand(2, 3, 4, 4, generator=generator)
    before, plain = images.clone(), SPACES[space].from_rgb(images)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(SPACES[space].from_rgb(images), plain, atol=5e-4, rtol=0)
    assert SPACES[space].from_rgb(images.bfloat16()).dtype == torch.float32
    assert torch.equal(images, before)
