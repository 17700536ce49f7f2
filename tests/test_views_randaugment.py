"""RandAugment: every operator against torchvision's, and which ones are drawn."""

import math

import pytest
import torch
from torchvision.transforms import InterpolationMode
from torchvision.transforms.v2 import functional as oracle

from annulus.config.images import RandAugmentParams, ViewSetParams
from annulus.views.randaugment import OPERATORS, RandAugment, draw_randaugment, randaugment_
from annulus.views.recipe import augment

NEAREST = {"interpolation": InterpolationMode.NEAREST}
STILL = {"angle": 0.0, "translate": [0, 0], "scale": 1.0, "shear": [0.0, 0.0]}


def slope(magnitude):
    return math.degrees(math.atan(0.3 * magnitude))


def in_torchvision(image, name, magnitude):
    """What v2.RandAugment calls, with its magnitude of so many thirtieths of the most."""
    _, height, width = image.shape
    size = abs(magnitude)
    match name:
        case "identity":
            return image
        case "shear x":
            return oracle.affine(image, **STILL | {"shear": [slope(magnitude), 0.0]}, center=[0, 0], **NEAREST)
        case "shear y":
            return oracle.affine(image, **STILL | {"shear": [0.0, slope(magnitude)]}, center=[0, 0], **NEAREST)
        case "translate x":
            return oracle.affine(image, **STILL | {"translate": [int(150 / 331 * width * magnitude), 0]}, **NEAREST)
        case "translate y":
            return oracle.affine(image, **STILL | {"translate": [0, int(150 / 331 * height * magnitude)]}, **NEAREST)
        case "rotate":
            return oracle.rotate(image, angle=30.0 * magnitude, **NEAREST)
        case "brightness":
            return oracle.adjust_brightness(image, 1 + 0.9 * magnitude)
        case "color":
            return oracle.adjust_saturation(image, 1 + 0.9 * magnitude)
        case "contrast":
            return oracle.adjust_contrast(image, 1 + 0.9 * magnitude)
        case "sharpness":
            return oracle.adjust_sharpness(image, 1 + 0.9 * magnitude)
        case "posterize":
            return oracle.posterize(image, bits=round(8 - 4 * size))
        case "solarize":
            return oracle.solarize(image, threshold=1 - size)
        case "autocontrast":
            return oracle.autocontrast(image)
        case "equalize":
            return oracle.equalize(image)


@pytest.mark.parametrize("name", OPERATORS)
def test_every_operator_is_torchvision_s_with_each_image_s_own_magnitude(name, generator):
    magnitudes = torch.tensor([10, -10, 9, 29, -21]) / 30
    images = torch.rand(5, 3, 21, 18, generator=generator)
    images[3] = images[3] * 0.2 + 0.3
    images[4, 1] = 0.5  # a channel without contrast
    pairs = zip(images, magnitudes.tolist(), strict=True)
    expected = torch.stack([in_torchvision(image, name, magnitude) for image, magnitude in pairs])
    drawn = RandAugment(torch.full((5, 1), OPERATORS.index(name)), magnitudes[:, None])
    found = randaugment_(images.clone(), drawn)
    # Where a source lies between two pixels, rounding decides which is nearest.
    differ = ((found - expected).abs() > 1e-5).any(dim=1).double().mean()
    assert differ <= (0.02 if name in ("shear x", "shear y", "rotate") else 0), differ


def test_operators_follow_one_another_image_by_image(generator):
    images = torch.rand(6, 3, 16, 16, generator=generator)
    drawn = RandAugment(torch.randint(14, (6, 2), generator=generator), torch.rand(6, 2, generator=generator))
    expected = images.clone()
    for row in range(6):
        for place in range(2):
            one = RandAugment(drawn.operators[row, place].view(1, 1), drawn.magnitudes[row, place].view(1, 1))
            expected[row : row + 1] = randaugment_(expected[row : row + 1].clone(), one)
    torch.testing.assert_close(randaugment_(images, drawn), expected)


def test_operators_are_drawn_alike_often_and_magnitudes_about_the_chosen_one(generator):
    drawn = draw_randaugment(RandAugmentParams(operators=2, magnitude=15.0, spread=3.0), 20_000, generator)
    counts = drawn.operators.flatten().bincount(minlength=14).double()
    expected = 40_000 / 14
    assert ((counts - expected) ** 2 / expected).sum() < 34.5  # chi-squared, 13 degrees of freedom, 0.1 %
    sizes = drawn.magnitudes.abs() * 30
    assert sizes.mean().item() == pytest.approx(15, abs=0.06)
    assert sizes.std().item() == pytest.approx(3, abs=0.06)
    assert abs((drawn.magnitudes > 0).double().mean() - 0.5) < 4 * 0.5 / 200
    wide = draw_randaugment(RandAugmentParams(operators=1, magnitude=30.0, spread=9.0), 999, generator)
    assert wide.magnitudes.abs().max() == 1


def test_views_are_what_they_were_without_and_then_changed(generator):
    """The rest of the recipe is drawn first, so that a set without RandAugment has the same views as before it."""
    plain = ViewSetParams(crop=None, flip=0.5, jitter=None, grayscale=0.2, blur=None, rand_augment=None, patches=None)
    params = RandAugmentParams(operators=2, magnitude=10.0, spread=0.5)
    images = torch.randint(0, 256, (12, 3, 16, 16), generator=generator, dtype=torch.uint8)
    one, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    expected = augment(images, plain, 16, one)
    changed = augment(images, plain.model_copy(update={"rand_augment": params}), 16, other)
    assert torch.equal(changed, randaugment_(expected, draw_randaugment(params, 12, one)))
    part = augment(images, plain.model_copy(update={"rand_augment": params}), 16, one.manual_seed(3), slice(4, 9))
    assert torch.equal(part, changed[4:9])
