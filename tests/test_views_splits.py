"""Splits: the parts by their definitions, and the statistics that encoders normalise them by."""

import pytest
import torch
from torchvision.transforms.v2.functional import gaussian_blur

from annulus.errors import InputError
from annulus.files.store import Resident
from annulus.views import splits
from annulus.views.spaces import SPACES, rgb_to_lab
from annulus.views.splits import ColourSplit, FrequencySplit, channel_statistics, parse_split

LAB = ColourSplit("lab")


@pytest.mark.parametrize("space", SPACES)
def test_a_colour_split_is_the_first_channel_and_the_other_two(space, generator):
    images = torch.rand(2, 3, 6, 7, generator=generator)
    first, rest = ColourSplit(space)(images)
    assert (first.shape[1], rest.shape[1]) == ColourSplit(space).planes == (1, 2)
    assert torch.equal(torch.cat([first, rest], dim=1), SPACES[space].from_rgb(images))


@pytest.mark.parametrize("sigma", [0.3, 0.7, 1.0, 2.0])
def test_low_is_the_blurred_image_and_low_and_high_add_up_to_the_image(sigma, generator):
    images = torch.rand(2, 3, 24, 20, generator=generator, dtype=torch.float64)
    low, high = FrequencySplit(sigma)(images)
    torch.testing.assert_close(low, gaussian_blur(images, [17, 17], [sigma, sigma]), atol=1e-4, rtol=0)
    torch.testing.assert_close(low + high, images)
    wide, _ = FrequencySplit(50.0)(images[..., :8, :8].float())
    assert wide.std(dim=(2, 3)).max() < 0.05, "the mean of a small image"


def test_a_split_is_described_by_one_key_and_nothing_else_is_one():
    assert parse_split(None) is None
    assert parse_split({"space": "lab"}) == LAB
    assert parse_split({"sigma": 2.0}) == FrequencySplit(2.0)
    for description in ({}, {"space": "lab", "sigma": 1.0}, {"sigma": "1"}, "lab"):
        with pytest.raises(ValueError, match="expected null, a colour space, a sigma or a view generator"):
            parse_split(description)
    with pytest.raises(InputError, match="colour space 'luv' is none of lab, ydbdr"):
        ColourSplit("luv")
    with pytest.raises(InputError, match="sigma 0 of a frequency split is not a width; take more than 0 pixels"):
        FrequencySplit(0.0)


@pytest.mark.parametrize("split", [*map(ColourSplit, SPACES), FrequencySplit(1.0)], ids=str)
@pytest.mark.parametrize("chunk", [1, 50])
def test_statistics_are_those_of_all_pixels_whatever_the_chunks(split, chunk, generator, monkeypatch):
    monkeypatch.setattr(splits, "CHUNK_PIXELS", chunk)
    images = torch.randint(0, 256, (7, 3, 5, 5), generator=generator, dtype=torch.uint8)
    pixels = torch.cat(split(images.double() / 255), dim=1).movedim(1, -1).flatten(0, 2)
    mean, std = channel_statistics(Resident(images), split)
    assert mean == pytest.approx(pixels.mean(dim=0).tolist(), abs=1e-3)
    assert std == pytest.approx(pixels.std(dim=0, correction=0).tolist(), abs=1e-3)


def test_of_more_pixels_than_are_read_statistics_are_those_of_images_drawn_from_all(generator, monkeypatch):
    monkeypatch.setattr(splits, "MOST_PIXELS", 75)
    images = torch.randint(0, 256, (7, 3, 5, 5), generator=generator, dtype=torch.uint8)
    some = torch.randperm(7, generator=torch.Generator().manual_seed(0))[:3].sort().values
    assert channel_statistics(Resident(images), LAB) == channel_statistics(Resident(images[some]), LAB)


def test_grey_images_are_refused_with_the_way_out(generator):
    grey = torch.randint(0, 256, (5, 1, 8, 8), generator=generator, dtype=torch.uint8).expand(5, 3, 8, 8)
    message = (
        r"^split: ydbdr contrasts Y with DBDR, but the images of this data set have no colour: a and b of CIELAB "
        r"deviate by 0\.00 and 0\.00 .*; take split: none, or a data set in colour"
    )
    with pytest.raises(InputError, match=message):
        channel_statistics(Resident(grey), ColourSplit("ydbdr"))
    bright = grey.clamp(40, 250).int()
    rounded = bright + torch.randint(-1, 2, bright.shape, generator=generator) * (torch.arange(8) == 0)
    with pytest.raises(InputError, match="have no colour"):  # a scan's or a JPEG's rounding does not count as colour
        channel_statistics(Resident(rounded.byte()), LAB)
    assert channel_statistics(Resident(grey), FrequencySplit(1.0)), "frequencies can be split"


def test_a_channel_that_hardly_varies_is_not_blown_up():
    for colours, flat in (([[200, 60, 60], [60, 125, 60]], 0), ([[100, 120, 50], [20, 100, 110]], 1)):
        images = torch.tensor(colours, dtype=torch.uint8)[:, :, None, None].expand(2, 3, 4, 4)
        std = channel_statistics(Resident(images), LAB)[1]
        assert rgb_to_lab(images / 255)[:, flat].std() < std[flat] == 0.5
        assert all(std[channel] > 1 for channel in range(3) if channel != flat)
