"""The map of the embeddings: each image at its place, in its class's colour, and small enough for the page."""

import base64
import io
import re
import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest
import torch
from PIL import Image

from annulus.diagnostics.maps import COLOURS, MOST, map_svg, on_grid
from annulus.evals.plane import MapSettings
from annulus.files.images import UNLABELLED, ImageSet
from annulus.files.store import Resident

PCA = MapSettings("pca")


def images(count: int, classes: int, side: int = 24) -> ImageSet:
    """Images of one grey each, which is their number."""
    pixels = torch.arange(count, dtype=torch.uint8)[:, None, None, None].expand(-1, 3, side, side).contiguous()
    labels = torch.arange(count) % classes if classes else torch.full((count,), UNLABELLED)
    return ImageSet(Resident(pixels), labels, torch.arange(count), tuple(f"<{name}>" for name in range(classes)))


def draw(count: int, classes: int, features=None) -> str:
    if features is None:
        features = torch.randn(count, 5, generator=torch.Generator().manual_seed(0))
    return map_svg([(images(count, classes), features)], PCA, torch.Generator().manual_seed(1))


def read_tiles(svg: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(re.search(r"data:image/webp;base64,([^\"]+)", svg)[1])))


def test_a_dot_has_its_place_its_class_s_colour_and_under_the_pointer_its_own_image_and_name():
    line = torch.arange(30.0)[:, None] * torch.tensor([[1.0, 0.5]])  # of two classes, in turn
    svg = draw(30, 2, line)
    ET.fromstring(svg)  # names are escaped
    paths = {
        shade: re.findall(r"M(\d+) (\d+)h0", path) for shade, path in re.findall(r'stroke="(#\w+)" d="(.*?)"', svg)
    }
    assert list(paths) == list(COLOURS[:2])
    across = sorted(
        int(x) for dots in re.findall(r'class="d d\d" .*? d="(.*?)"', svg) for x, _ in re.findall(r"M(\d+) (\d+)", dots)
    )
    assert (across[0], across[-1]) == (12, 628)
    assert max(abs(b - a - 616 / 29) for a, b in pairwise(across)) <= 1
    whole = read_tiles(svg)
    for label, x, box, name in re.findall(
        r'class="p p(\d)"><circle class="h" cx="(\d+)".*?viewBox="(.*?)".*?>([^<]*)</text>', svg
    ):
        left, top, side, _ = map(int, box.split())
        number = whole.getpixel((left + side // 2, top + side // 2))[0]
        place = round((int(x) - 12) / 616 * 29)
        assert abs(number - min(place, 29 - place)) <= 3 or abs(number - max(place, 29 - place)) <= 3
        assert name == f"&lt;{label}&gt;"
        assert min(abs(place % 2 - int(label)), abs((29 - place) % 2 - int(label))) == 0
    assert re.findall(r'h0"/><text x="(\d+)" y="(\d+)"', svg) == [("21", "464"), ("341", "464")], "side by side"
    for dot, left in re.findall(r'class="r" cx="(\d+)".*?<svg x="(\d+)"', svg):
        assert 0 < int(left) < 640 - 112, "the image is inside the map"
        assert int(left) >= int(dot) + 11 or int(left) + 112 <= int(dot) - 11, "and beside its dot"
    assert "svg:has(.p1:hover) .d:not(.d1){opacity:.12}" in svg
    assert "<script" not in svg


def test_a_plane_that_is_higher_than_wide_lies_on_its_side():
    high = torch.tensor([[1.0, 0.0], [-1.0, 0.0]] * 14 + [[0.0, 3.0], [0.0, 0.0]])  # most vary along the other axis
    dots = re.findall(r'<circle class="h" cx="(\d+)"', draw(30, 2, high))
    assert (min(map(int, dots)), max(map(int, dots))) == (12, 628)


def test_without_classes_the_images_themselves_lie_on_a_grid_and_none_covers_another():
    svg = draw(40, 0)
    ET.fromstring(svg)
    places = re.findall(r'<svg x="(\d+)" y="(\d+)" width="22"', svg)
    assert len(places) == len(set(places)) == 40
    assert svg.count('<g class="p">') == 40
    assert ":has" not in svg


def test_of_many_classes_each_has_a_hue_and_of_many_images_some_are_shown():
    features = torch.randn(700, 5, generator=torch.Generator().manual_seed(0))
    svg = map_svg([(images(500, 100), features[:500]), (images(200, 100), features[500:])], PCA, torch.Generator())
    assert svg.count('<g class="p ') == MOST
    assert len(set(re.findall(r'stroke="(hsl\(.*?\))" d=', svg))) == 100
    assert svg.count('<g class="p ') == len(re.findall(r"M\d+ \d+h0", svg))


@pytest.mark.parametrize("classes", [0, *(pytest.param(some, marks=pytest.mark.slow) for some in (1, 10)), 100])
def test_the_file_is_small_whatever_the_images_are(classes):
    noise = torch.randint(256, (700, 3, 64, 64), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    noise_images = images(700, classes)
    noise_images = ImageSet(Resident(noise), noise_images.labels, noise_images.rows, noise_images.classes)
    svg = map_svg([(noise_images, torch.randn(700, 8))], PCA, torch.Generator().manual_seed(1))
    assert len(svg.encode()) <= 400_000


@pytest.mark.parametrize("count", [1, 2, 7])
def test_a_few_images_are_a_map_too(count):
    ET.fromstring(draw(count, 0))
    ET.fromstring(draw(count, 2))


def test_every_place_has_a_cell_of_its_own_near_where_it_wants_to_be():
    places = torch.randn(100, 2, generator=torch.Generator().manual_seed(3)).double()
    cells = on_grid(places)
    assert len(set(map(tuple, cells.tolist()))) == 100
    for axis in (0, 1):
        ranks = torch.stack([cells[:, axis].double().argsort().argsort(), places[:, axis].argsort().argsort()]).double()
        assert torch.corrcoef(ranks)[0, 1] > 0.9
