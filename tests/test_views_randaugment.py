"""RandAugment: every operator against torchvision's, and the distribution of its draws."""

import math
from dataclasses import replace

import pytest
import torch
from compilers import UNOPTIMISED, needs_compiler
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as oracle

from annulus.device import c_library
from annulus.views import randaugment
from annulus.views.batch_share import BatchShare
from annulus.views.randaugment import CHANGES, MOVES, DrawnRandAugment, RandAugment
from annulus.views.recipe import augment
from annulus.views.settings import ViewSet

ANY = RandAugment(operators=1, magnitude=0.0, spread=0.0, probability=1.0)  # its settings affect the draws only
NEAREST = {"interpolation": InterpolationMode.NEAREST}


def affine(image, **changes):
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    return oracle.affine(image, **still | changes, **NEAREST)


def slope(magnitude):
    return math.degrees(math.atan(0.3 * magnitude))


# Calls of v2.RandAugment for an image; m is the magnitude as a share of the largest, in thirtieths.
TORCHVISION = {
    "identity": lambda image, m: image,
    "shear x": lambda image, m: affine(image, shear=[slope(m), 0.0], center=[0, 0]),
    "shear y": lambda image, m: affine(image, shear=[0.0, slope(m)], center=[0, 0]),
    "translate x": lambda image, m: affine(image, translate=[int(150 / 331 * image.shape[2] * m), 0]),
    "translate y": lambda image, m: affine(image, translate=[0, int(150 / 331 * image.shape[1] * m)]),
    "rotate": lambda image, m: oracle.rotate(image, angle=30.0 * m, **NEAREST),
    "brightness": lambda image, m: oracle.adjust_brightness(image, 1 + 0.9 * m),
    "color": lambda image, m: oracle.adjust_saturation(image, 1 + 0.9 * m),
    "contrast": lambda image, m: oracle.adjust_contrast(image, 1 + 0.9 * m),
    "sharpness": lambda image, m: oracle.adjust_sharpness(image, 1 + 0.9 * m),
    "posterize": lambda image, m: oracle.posterize(image, bits=round(8 - 4 * abs(m))),
    "solarize": lambda image, m: oracle.solarize(image, threshold=1 - abs(m)),
    "autocontrast": lambda image, m: oracle.autocontrast(image),
    "equalize": lambda image, m: oracle.equalize(image),
}


@pytest.fixture(params=["by operators", pytest.param("in C", marks=needs_compiler)])
def way(request, monkeypatch):
    """Changes by operators, as for small views, and in C, as for large ones."""
    monkeypatch.setattr(randaugment, "LARGE", 1)
    monkeypatch.setattr(randaugment, "trusted", lambda *_: request.param == "in C")


def one_change(name, magnitudes):
    """One change for all images, with a magnitude for each image."""
    return DrawnRandAugment(torch.full((len(magnitudes), 1), CHANGES.index(name)), magnitudes[:, None])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("height", "width"), [(21, 18), (131, 127), (3, 3), (2, 5), (224, 224)])
@pytest.mark.parametrize("name", CHANGES)
def test_every_operator_is_torchvision_s_with_each_image_s_own_magnitude(name, height, width, generator):
    magnitudes = torch.tensor([10, -10, 9, 29, -21]) / 30
    images = torch.rand(5, 3, height, width, generator=generator)
    images[3] = images[3] * 0.2 + 0.3
    images[4, 1] = 0.5  # a channel without contrast
    pairs, before = zip(images, magnitudes.tolist(), strict=True), images.clone()
    expected = torch.stack([TORCHVISION[name](image, magnitude) for image, magnitude in pairs])
    lying = images.contiguous(memory_format=torch.channels_last)
    # If a source lies between two pixels, rounding decides which is nearest. The next test leaves those places out.
    most = 0.02 if name in ("shear x", "shear y", "rotate") else 0
    for some in (images, lying):
        differ = ((ANY.apply(some, one_change(name, magnitudes)) - expected).abs() > 1e-5).any(dim=1).double().mean()
        assert differ <= most, differ
    assert torch.equal(images, before)


def sources(name, m, height, width):
    """Row and column of each pixel's source, in double precision; pixels are squares of side 1.

    Shears keep the upper left corner, rotations the middle; positive angles turn counterclockwise.
    """
    y, x = (torch.arange(side, dtype=torch.float64) + 0.5 for side in (height, width))
    y, x = torch.meshgrid(y, x, indexing="ij")
    match name:
        case "shear x":
            return y, x + 0.3 * m * y
        case "shear y":
            return y + 0.3 * m * x, x
        case "translate x":
            return y, x - int(150 / 331 * width * m)
        case "translate y":
            return y - int(150 / 331 * height * m), x
        case "rotate":
            angle = math.radians(30 * m)
            up, along = y - height / 2, x - width / 2
            return (
                height / 2 + math.sin(angle) * along + math.cos(angle) * up,
                width / 2 + math.cos(angle) * along - math.sin(angle) * up,
            )


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("height", "width"), [(21, 18), (128, 143)])
@pytest.mark.parametrize("name", MOVES)
def test_pixels_move_from_the_nearest_ones_of_the_definition(name, height, width, generator):
    magnitudes = torch.tensor([0.31, -0.43, 0.97, -1.0])
    images = 0.1 + 0.9 * torch.rand(4, 3, height, width, generator=generator)
    views = ANY.apply(images, one_change(name, magnitudes))
    for image, view, magnitude in zip(images, views, magnitudes.tolist(), strict=True):
        y, x = sources(name, magnitude, height, width)
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
        row, column = (axis.floor().long().clamp(0, side - 1) for axis, side in ((y, height), (x, width)))
        expected = torch.where(inside, image[:, row, column], 0.0)
        tied = ((y - y.round()).abs() < 1e-3) | ((x - x.round()).abs() < 1e-3)
        assert tied.double().mean() < 0.05
        assert torch.equal(view[:, ~tied], expected[:, ~tied])


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(("height", "width"), [(16, 16), (128, 131)])
def test_operators_follow_one_another_image_by_image(height, width, generator):
    images = torch.rand(8, 3, height, width, generator=generator)
    drawn = DrawnRandAugment(torch.randint(14, (8, 3), generator=generator), torch.rand(8, 3, generator=generator))
    drawn.changes[0] = CHANGES.index("identity")
    drawn.changes[1, 1:] = CHANGES.index("identity")
    drawn.changes[2, :2] = CHANGES.index("identity")
    expected = images.clone()
    for row in range(8):
        for place in range(3):
            one = DrawnRandAugment(*(each[row : row + 1, place : place + 1] for each in drawn))
            expected[row : row + 1] = ANY.apply(expected[row : row + 1], one)
    torch.testing.assert_close(ANY.apply(images, drawn), expected)
    assert len(ANY.apply(images[:0], DrawnRandAugment(*(each[:0] for each in drawn)))) == 0


def test_large_views_in_float32_alone_are_changed_in_c(generator, monkeypatch):
    """Other views keep their gradient, their precision and their path."""
    shapes = []
    monkeypatch.setattr(randaugment, "trusted", lambda *_: True)
    monkeypatch.setattr(randaugment, "changed_in_c", lambda view, drawn: shapes.append(view.shape) or view)
    drawn = one_change("solarize", torch.tensor([0.5]))
    small, large = (torch.rand(1, 3, side, 128, generator=generator) for side in (127, 128))
    ANY.apply(small, drawn)
    ANY.apply(large.double(), drawn)
    leaf = large.clone().requires_grad_()
    ANY.apply(leaf, drawn).sum().backward()
    assert leaf.grad.unique().tolist() == [-1, 1]
    assert not shapes
    ANY.apply(large, drawn)
    assert shapes == [large.shape]


@needs_compiler
@pytest.mark.parametrize("value", [-3.0, 2.0, 1e30, math.nan])
def test_values_that_are_no_colour_write_nothing_beside_the_table_of_levels(value, generator):
    views = torch.rand(1, 3, 128, 128, generator=generator)
    views[0, 0, 5, 7] = value
    changed = randaugment.changed_in_c(views, one_change("equalize", torch.zeros(1)))
    assert torch.equal(
        changed[0, 1:], randaugment.changed_in_c(views.nan_to_num(), one_change("equalize", torch.zeros(1)))[0, 1:]
    )
    assert ((changed >= 0) & (changed <= 1)).all()


@needs_compiler
@pytest.mark.parametrize(
    ("was", "becomes"),
    [
        ("(from_x >= 0)", "(from_x > 0)"),
        ("rintf(matrix[3]", "floorf(matrix[3]"),
        ("mean_share * (float)", "(float)"),
        ("grey_share * luma", "luma"),
        ("4 * from[column]", "5 * from[column]"),
        ("rintf(4 * size)", "floorf(4 * size)"),
        (">= threshold", "< threshold"),
        ("low == high ? 1 :", "low == high ? 2 :"),
        ("below + step / 2", "below"),
        ("SHARPNESS, POSTERIZE", "POSTERIZE, SHARPNESS"),
        ("left-- % 2", "--left % 2"),
    ],
)
def test_a_fault_in_c_is_seen_before_it_is_used(was, becomes, tmp_path, monkeypatch):
    text = randaugment.SOURCE.read_text().replace("\n       SOLARIZE", " SOLARIZE")
    assert text.count(was) == 1
    monkeypatch.setattr(c_library, "FLAGS", UNOPTIMISED)
    for name, content, agrees in (("right", text, True), ("faulty", text.replace(was, becomes), False)):
        monkeypatch.setattr(randaugment, "SOURCE", tmp_path / f"{name}.c")
        randaugment.SOURCE.write_text(content)
        assert randaugment.c_agrees(torch.device("cpu")) is agrees


def test_operators_are_drawn_alike_often_and_magnitudes_about_the_chosen_one(generator):
    drawn = RandAugment(operators=2, magnitude=15.0, spread=3.0, probability=1.0).draw(20_000, generator)
    counts, expected = drawn.changes.flatten().bincount(minlength=14).double(), 40_000 / 14
    assert ((counts - expected) ** 2 / expected).sum() < 34.5  # chi-squared, 13 degrees of freedom, 0.1 %
    sizes = drawn.magnitudes.abs() * 30
    assert (sizes.mean().item(), sizes.std().item()) == pytest.approx((15, 3), abs=0.06)
    assert abs((drawn.magnitudes > 0).double().mean() - 0.5) < 4 * 0.5 / 200
    wide = RandAugment(operators=1, magnitude=30.0, spread=9.0, probability=1.0).draw(999, generator)
    assert wide.magnitudes.abs().max() == 1


def test_an_operator_is_left_out_as_often_as_its_probability_says(generator):
    params = RandAugment(operators=2, magnitude=30.0, spread=1.5, probability=0.5)
    identity = params.draw(20_000, generator).changes == CHANGES.index("identity")
    assert identity.double().mean().item() == pytest.approx(1 - 0.5 * 13 / 14, abs=0.01)
    both = identity.all(dim=1).double().mean().item()
    assert both == pytest.approx((1 - 0.5 * 13 / 14) ** 2, abs=0.015), "each operator by itself"


@pytest.mark.parametrize("size", [16, 128])
def test_views_are_what_they_were_without_and_then_changed(size, generator):
    """The rest of the recipe is drawn first, so views without RandAugment equal the views before it."""
    plain = ViewSet(flip=0.5, grayscale=0.2)
    params = RandAugment(operators=2, magnitude=10.0, spread=0.5, probability=0.5)
    changing = replace(plain, rand_augment=params)
    images = torch.randint(0, 256, (12, 3, size, size), generator=generator, dtype=torch.uint8)
    expected = augment(images, plain, size, generator.manual_seed(3))
    expected = params.apply(expected, params.draw(12, generator))
    assert torch.equal(augment(images, changing, size, generator.manual_seed(3)), expected)
    rows = torch.tensor([1, 4, 8])
    some = augment(images[rows], changing, size, generator.manual_seed(3), BatchShare(rows, len(images)))
    assert torch.equal(some, expected[rows])
