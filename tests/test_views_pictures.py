"""Pixels of Pillow's pictures against NumPy's copy of them."""

import gc
from unittest import mock

import numpy as np
import pytest
import torch
from PIL import Image

from annulus.views.pictures import pixels

MODES = ["1", "L", "P", "RGB", "RGBA", "CMYK", "YCbCr", "HSV", "LAB", "I;16"]


def draw(height, width, mode="RGB"):
    numbers = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    picture = Image.fromarray(numbers)
    return Image.fromarray(numbers[..., 0].astype(np.uint16)) if mode == "I;16" else picture.convert(mode)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("height", "width"), [(1, 1), (7, 5), (31, 64)])
def test_a_picture_of_any_mode_has_the_pixels_of_its_rgb(mode, height, width):
    picture = draw(height, width, mode)
    expected = np.asarray(picture.convert("RGB")).transpose(2, 0, 1)
    np.testing.assert_array_equal(pixels(picture).numpy(), expected)


def test_a_file_is_read_and_a_part_of_a_picture_has_its_own_pixels(tmp_path):
    draw(20, 30).save(tmp_path / "picture.png")
    with Image.open(tmp_path / "picture.png") as picture:
        assert torch.equal(pixels(picture), pixels(draw(20, 30)))
        part = pixels(picture.crop((2, 3, 9, 11)))
    assert torch.equal(part, pixels(draw(20, 30))[:, 3:11, 2:9])


def test_pixels_are_the_picture_s_memory_and_outlive_it():
    picture = draw(64, 64)
    expected, memory = np.array(picture), pixels(picture)
    assert memory.stride() == (1, 4 * 64, 4)
    del picture
    gc.collect()
    others = [draw(64, 64) for _ in range(50)]  # would take freed memory
    np.testing.assert_array_equal(memory.permute(1, 2, 0).numpy(), expected)
    assert others


def test_pictures_whose_memory_is_in_several_blocks_or_of_an_older_pillow_are_copied():
    large = draw(2100, 2100)  # 17.6 MB
    assert np.array_equal(pixels(large).permute(1, 2, 0).numpy(), np.array(large))
    small = draw(9, 8)
    with mock.patch.object(Image.Image, "__arrow_c_array__", side_effect=AttributeError):
        copy = pixels(small)
    assert copy.stride() == (1, 3 * 8, 3)
    assert torch.equal(copy, pixels(small))
