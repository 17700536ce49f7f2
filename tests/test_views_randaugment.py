"""RandAugment: every operator against torchvision's, and which ones are drawn."""

import math
from dataclasses import replace

import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as oracle

from annulus.views.randaugment import CHANGES, DrawnRandAugment, RandAugment
from annulus.views.recipe import augment
from annulus.views.settings import ViewSet
from annulus.views.shown import Shown

ANY = RandAugment(operators=1, magnitude=0.0, spread=0.0, probability=1.0)  # its settings concern its draws alone
NEAREST = {"interpolation": InterpolationMode.NEAREST}


def affine(image, **changes):
    still = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}
    return oracle.affine(image, **still | changes, **NEAREST)


def slope(magnitude):
    return math.degrees(math.atan(0.3 * magnitude))


# What v2.RandAugment calls of an image, with its magnitude m of so many thirtieths of the most.
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


@pytest.mark.parametrize("name", CHANGES)
def test_every_operator_is_torchvision_s_with_each_image_s_own_magnitude(name, generator):
    magnitudes = torch.tensor([10, -10, 9, 29, -21]) / 30
    images = torch.rand(5, 3, 21, 18, generator=generator)
    images[3] = images[3] * 0.2 + 0.3
    images[4, 1] = 0.5  # a channel without contrast
    pairs = zip(images, magnitudes.tolist(), strict=True)
    expected = torch.stack([TORCHVISION[name](image, magnitude) for image, magnitude in pairs])
    drawn = DrawnRandAugment(torch.full((5, 1), CHANGES.index(name)), magnitudes[:, None])
    # Where a source lies between two pixels, rounding decides which is nearest.
    differ = ((ANY.apply(images, drawn) - expected).abs() > 1e-5).any(dim=1).double().mean()
    assert differ <= (0.02 if name in ("shear x", "shear y", "rotate") else 0), differ


def test_operators_follow_one_another_image_by_image(generator):
    images = torch.rand(6, 3, 16, 16, generator=generator)
    drawn = DrawnRandAugment(torch.randint(14, (6, 2), generator=generator), torch.rand(6, 2, generator=generator))
    expected = images.clone()
    for row in range(6):
        for place in range(2):
            one = DrawnRandAugment(*(each[row : row + 1, place : place + 1] for each in drawn))
            expected[row : row + 1] = ANY.apply(expected[row : row + 1], one)
    torch.testing.assert_close(ANY.apply(images, drawn), expected)


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


def test_views_are_what_they_were_without_and_then_changed(generator):
    """The rest of the recipe is drawn first, so that a set without RandAugment has the same views as before it."""
    plain = ViewSet(flip=0.5, grayscale=0.2)
    params = RandAugment(operators=2, magnitude=10.0, spread=0.5, probability=0.5)
    changing = replace(plain, rand_augment=params)
    images = torch.randint(0, 256, (12, 3, 16, 16), generator=generator, dtype=torch.uint8)
    expected = augment(images, plain, 16, generator.manual_seed(3))
    expected = params.apply(expected, params.draw(12, generator))
    assert torch.equal(augment(images, changing, 16, generator.manual_seed(3)), expected)
    rows = torch.tensor([1, 4, 8])
    some = augment(images[rows], changing, 16, generator.manual_seed(3), Shown(rows, len(images)))
    assert torch.equal(some, expected[rows])
