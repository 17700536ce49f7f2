"""The layout of drawn sheets: every picture whole and in its place, with its row's name to the left."""

import numpy as np
import torch

from annulus.files.sheets import sheet, shortened, tile

COLOURS = torch.tensor([[255, 0, 0], [0, 255, 0], [0, 0, 255]], dtype=torch.uint8)


def test_every_picture_is_there_whole_in_rows_and_groups_behind_the_names():
    red, green, blue = (tile(colour[:, None, None].expand(3, 2, 2), 10) for colour in COLOURS)
    image = np.asarray(sheet([("one", [red, None, green]), ("a longer name", [blue, red, green, blue])], together=2))
    places = {}
    for name, colour in zip("rgb", COLOURS.numpy(), strict=True):
        rows, columns = np.nonzero((image == colour).all(axis=2))
        places[name] = sorted({(row, column) for row, column in zip(rows, columns, strict=True)})
    assert {name: len(pixels) for name, pixels in places.items()} == {"r": 200, "g": 200, "b": 200}
    first = min(column for _, column in places["b"])
    assert places["r"][0][0] == places["g"][0][0] == 4  # the first row is below the border
    assert places["b"][0] == (18, first)
    assert {column - first for _, column in places["g"]} == set(range(32, 42))  # the second group starts 4 further
    names = np.nonzero((image < 128).all(axis=2))[1]
    assert 0 < names.max() < first


def test_a_column_without_a_picture_is_a_gap_and_headings_stand_above_theirs():
    red = tile(COLOURS[0][:, None, None].expand(3, 2, 2), 10)
    plain, headed = (sheet([("", [red, None, red])] * 2, headings=headings) for headings in (None, {2: "near"}))
    assert plain.size == (12 + 14 + 8 + 14, 4 + 2 * 14)
    assert headed.size == (plain.width, plain.height + 13 + 4)
    pixels = np.asarray(headed)
    assert np.array_equal(pixels[21:], np.asarray(plain)[4:])
    assert np.nonzero((pixels[:21] < 128).all(axis=2))[1].min() >= 34


def test_a_long_name_is_cut_in_the_middle_and_keeps_its_end():
    assert shortened("a/b/photograph.jpg") == "photograph.jpg"
    assert shortened("a_very_long_name_of_a_photograph_0001.png") == "a_very_long_name...001.png"
    assert shortened("\u732bIMG_0001.jpg", 10) == "...001.jpg"
    assert shortened("caf\u00e9.png") == "caf\u00e9.png"


def test_a_tile_shows_each_pixel_as_a_square():
    pixels = torch.arange(12, dtype=torch.uint8).view(3, 2, 2)
    image = np.asarray(tile(pixels, 6))
    assert np.array_equal(image[::3, ::3].transpose(2, 0, 1), pixels.numpy())
    assert np.array_equal(image, image[::3, ::3].repeat(3, 0).repeat(3, 1))
