"""RGB to CIELAB: the CIE's formulas pixel by pixel, known colours, and the statistics of a data set."""

import pytest
import torch

from annulus.encoders import lab
from annulus.encoders.lab import lab_statistics, rgb_to_lab
from annulus.errors import InputError
from annulus.files.store import Resident

WHITE = (0.95047, 1.0, 1.08883)  # D65, 2 degree observer


def lab_of_pixel(rgb):
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


def by_pixel(images):
    """Reference for a batch (b, 3, h, w)."""
    pixels = [lab_of_pixel(pixel) for pixel in images.double().movedim(1, -1).reshape(-1, 3).tolist()]
    return torch.tensor(pixels, dtype=torch.float64).view(len(images), *images.shape[2:], 3).movedim(-1, 1)


def test_every_pixel_is_what_the_cie_formulas_say(generator):
    images = torch.rand(4, 3, 5, 7, generator=generator)
    images[1] *= 0.08  # about the bend of sRGB's curve, and below that of CIELAB's
    images[2] *= torch.rand(3, 5, 7, generator=generator) > 0.5  # colours of the gamut's faces and edges
    before, expected = images.clone(), by_pixel(images)
    torch.testing.assert_close(rgb_to_lab(images).double(), expected, atol=5e-4, rtol=0)
    torch.testing.assert_close(rgb_to_lab(images.double()), by_pixel(images), atol=2e-5, rtol=0)
    assert torch.equal(images, before)


def test_known_colours():
    for rgb, expected in (
        ((1.0, 1.0, 1.0), (100.0, 0.0, 0.0)),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0)),
        ((1.0, 0.0, 0.0), (53.24, 80.09, 67.20)),
        ((1.0, 1.0, 0.0), (97.14, -21.55, 94.48)),
        ((119 / 255, 119 / 255, 119 / 255), (50.03, 0.0, 0.0)),  # what photographers know as middle grey
    ):
        found = rgb_to_lab(torch.tensor(rgb).view(1, 3, 1, 1)).flatten()
        torch.testing.assert_close(found, torch.tensor(expected), atol=6e-3, rtol=0)


def test_autocast_does_not_round_colours(generator):
    images = torch.rand(2, 3, 8, 8, generator=generator)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = rgb_to_lab(images)
    assert found.dtype == rgb_to_lab(images.bfloat16()).dtype == torch.float32
    torch.testing.assert_close(found.double(), by_pixel(images), atol=5e-4, rtol=0)


def test_gradients_are_right_and_finite_at_black(generator):
    images = torch.rand(1, 3, 2, 3, dtype=torch.float64, generator=generator) * 0.9 + 0.05
    images[..., 0] *= 0.1
    assert torch.autograd.gradcheck(rgb_to_lab, images.requires_grad_())
    black = torch.zeros(1, 3, 1, 1, requires_grad=True)
    rgb_to_lab(black)[:, 0].sum().backward()
    # At black both curves are lines: dL/dv of one channel is 24389 / 27 / 12.92 times its share of Y.
    expected = torch.tensor([0.2126729, 0.7151522, 0.0721750]) * 24389 / 27 / 12.92
    torch.testing.assert_close(black.grad.flatten(), expected, atol=1e-3, rtol=1e-4)


@pytest.mark.parametrize("chunk", [1, 50])
def test_statistics_are_those_of_all_pixels_whatever_the_chunks(chunk, generator, monkeypatch):
    monkeypatch.setattr(lab, "CHUNK_PIXELS", chunk)
    images = torch.randint(0, 256, (7, 3, 5, 5), generator=generator, dtype=torch.uint8)
    pixels = by_pixel(images.double() / 255).movedim(1, -1).reshape(-1, 3)
    mean, std = lab_statistics(Resident(images))
    assert mean == pytest.approx(pixels.mean(dim=0).tolist(), abs=1e-3)
    assert std == pytest.approx(pixels.std(dim=0, correction=0).tolist(), abs=1e-3)


def test_grey_images_are_refused_with_the_way_out(generator):
    grey = torch.randint(0, 256, (5, 1, 8, 8), generator=generator, dtype=torch.uint8).expand(5, 3, 8, 8)
    with pytest.raises(
        InputError,
        match=r"cmc contrasts lightness \(L\) with colour \(a, b\), but the images of this data set have no colour: "
        r"a and b deviate by 0\.00 and 0\.00 .*; take method: ir",
    ):
        lab_statistics(Resident(grey))
    bright = grey.clamp(40, 250).int()
    rounded = bright + torch.randint(-1, 2, bright.shape, generator=generator) * (torch.arange(8) == 0)
    with pytest.raises(InputError, match="have no colour"):  # a scan's or a JPEG's rounding is no colour
        lab_statistics(Resident(rounded.byte()))


def test_a_channel_that_hardly_varies_is_not_blown_up():
    for colours, flat in (([[200, 60, 60], [60, 125, 60]], 0), ([[100, 120, 50], [20, 100, 110]], 1)):
        images = torch.tensor(colours, dtype=torch.uint8)[:, :, None, None].expand(2, 3, 4, 4)
        std = lab_statistics(Resident(images))[1]
        assert rgb_to_lab(images / 255)[:, flat].std() < std[flat] == 0.5
        assert all(std[channel] > 1 for channel in range(3) if channel != flat)
