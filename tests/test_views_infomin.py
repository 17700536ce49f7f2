"""InfoMin's RandAugment: each change against a plain loop over levels and pixels, and the draws.

Each change differs from the authors' code (HobbitLong/PyContrast, outside of the project) by less than a level of 255
on average.
"""

import math

import pytest
import torch

from annulus.views.colour import luma
from annulus.views.infomin import CHANGES, MEAN, MOVES, DrawnInfoMin, InfoMinRandAugment
from annulus.views.sets import SETS

INFOMIN = InfoMinRandAugment(operators=2, magnitude=10.0, spread=0.5, probability=0.5, grayscale=0.2)


def apply_one(name, view, magnitude=1.0, sign=1, cubic=False):
    """Applies one change to all views."""
    count = len(view)
    drawn = DrawnInfoMin(
        torch.full((count, 1), CHANGES.index(name)), torch.full((count, 1), magnitude), torch.full((count, 1), sign),
        torch.full((count, 1), cubic), torch.zeros(count, dtype=torch.bool),
    )  # fmt: skip
    return INFOMIN.apply(view, drawn)


@pytest.fixture
def view(generator):
    return torch.randint(0, 256, (2, 3, 9, 12), generator=generator) / 255


# The new level of a level from 0 to 255; `share` is the magnitude as a share of the largest.
LEVELS = {
    "invert": lambda level, share: 255 - level,
    "posterize": lambda level, share: level & ~(2 ** (8 - int(4 * share)) - 1),
    "solarize": lambda level, share: level if level < int(256 * share) else 255 - level,
    "solarize add": lambda level, share: min(255, level + int(110 * share)) if level < 128 else level,
}


@pytest.mark.parametrize("share", [1.0, 0.97, 0.5])
@pytest.mark.parametrize("name", LEVELS)
def test_levels_become_those_of_the_authors(name, share, view):
    levels = (view * 255).round().int().flatten().tolist()
    expected = torch.tensor([LEVELS[name](level, share) for level in levels]).view(view.shape) / 255
    torch.testing.assert_close(apply_one(name, view, share), expected)


def test_strengths_rise_from_a_tenth_to_almost_two_and_solarisation_ends_where_it_began(view):
    """Torchvision's strengths are 1 +- 0.9; its solarisation inverts everything at the largest magnitude."""
    for share, factor in ((1.0, 1.9), (0.0, 0.1), (0.5, 1.0)):
        torch.testing.assert_close(apply_one("brightness", view, share), (view * factor).clamp(0, 1))
        grey = luma(view)[:, None]
        torch.testing.assert_close(apply_one("color", view, share), (grey + factor * (view - grey)).clamp(0, 1))
    assert torch.equal(apply_one("solarize", view), view)


def source(name, amount, x, y, height, width):
    """Source (x, y) of the middle of a pixel."""
    match name:
        case "shear x":
            return x + 0.3 * amount * y, y
        case "shear y":
            return x, y + 0.3 * amount * x
        case "translate x":
            return x + 0.45 * amount * width, y
        case "translate y":
            return x, y + 0.45 * amount * height
    angle = math.radians(30) * amount
    across, down = x - width / 2, y - height / 2
    return (
        math.cos(angle) * across - math.sin(angle) * down + width / 2,
        math.sin(angle) * across + math.cos(angle) * down + height / 2,
    )


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("name", MOVES)
def test_moved_pixels_are_interpolated_and_the_mean_colour_stands_beyond_the_border(name, sign, view):
    linear = apply_one(name, view, 0.7, sign)
    (height, width), expected = view.shape[2:], torch.empty_like(view)
    for row in range(height):
        for column in range(width):
            x, y = source(name, 0.7 * sign, column + 0.5, row + 0.5, height, width)
            if not (0 <= x < width and 0 <= y < height):
                expected[:, :, row, column] = torch.tensor(MEAN)
                continue
            left, top = math.floor(x - 0.5), math.floor(y - 0.5)
            total = torch.zeros(len(view), 3)
            for near_y in (top, top + 1):
                for near_x in (left, left + 1):
                    weight = (1 - abs(x - 0.5 - near_x)) * (1 - abs(y - 0.5 - near_y))
                    place = min(max(near_y, 0), height - 1), min(max(near_x, 0), width - 1)
                    total += weight * view[:, :, *place]
            expected[:, :, row, column] = total
    torch.testing.assert_close(linear, expected, atol=1e-5, rtol=0)
    cubic = apply_one(name, view, 0.7, sign, cubic=True)
    assert not torch.allclose(cubic, linear, atol=1e-3)
    outside = (expected == torch.tensor(MEAN)[:, None, None]).all(1, keepdim=True).expand_as(view)
    assert torch.equal(cubic[outside], linear[outside])


def test_it_draws_fifteen_changes_half_of_them_applied_at_magnitudes_near_ten_and_greyscale_last(view):
    drawn = INFOMIN.draw(30_000, torch.Generator().manual_seed(0))
    counts = torch.bincount(drawn.changes.flatten() + 1, minlength=16) / drawn.changes.numel()
    assert counts[0] == pytest.approx(0.5, abs=0.01)
    assert counts[1:].tolist() == pytest.approx([0.5 / 15] * 15, abs=0.003)
    assert (drawn.magnitudes == 1).float().mean() == pytest.approx(0.5, abs=0.01)  # clamped to 10
    assert drawn.magnitudes[drawn.magnitudes < 1].std() == pytest.approx(0.05 * (1 - 2 / math.pi) ** 0.5, abs=0.002)
    assert drawn.gray.float().mean() == pytest.approx(0.2, abs=0.01)
    gray = drawn._replace(**{name: getattr(drawn, name)[:2] for name in drawn._fields})._replace(
        gray=torch.ones(2).bool()
    )
    result = INFOMIN.apply(view, gray)
    assert torch.equal(result[:, 0], result[:, 1])
    assert torch.equal(result[:, 1], result[:, 2])


def test_infomin_is_theirs_and_the_former_set_keeps_its_name():
    theirs, former = SETS["infomin"], SETS["infomin-torchvision"]
    assert (theirs.rand_augment, theirs.grayscale, theirs.operators) == (None, 0.0, {"infomin": INFOMIN})
    assert (former.rand_augment.magnitude, former.grayscale, former.operators) == (30.0, 0.2, {})
    assert (theirs.crop, theirs.flip, theirs.jitter, theirs.blur) == (former.crop, 0.5, former.jitter, former.blur)
