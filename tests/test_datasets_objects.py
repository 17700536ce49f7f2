"""Objects: the same bytes everywhere, masks that cover the objects, and light in the luma alone."""

import hashlib

import numpy as np
import pytest
import torch

from annulus.datasets.objects import OBJECTS, draw_masks, draw_objects
from annulus.datasets.parts import save_prepared
from annulus.datasets.prepare import prepare_images
from annulus.datasets.settings import GeneratedSettings, PrepareBudget
from annulus.files.images import load_images
from annulus.views.spaces import rgb_to_yuv

ROWS = np.arange(200)


@pytest.fixture(scope="module")
def planes():
    """Luma, U and V, (3, n, h, w), and masks of the objects."""
    return rgb_to_yuv(draw_objects(ROWS, 20, 1).double() / 255).unbind(1), draw_masks(ROWS, 20, 1) > 0


def test_an_image_and_its_mask_depend_on_the_row_the_size_and_the_key_alone():
    for draw in (draw_objects, draw_masks):
        some, more = draw(np.arange(3), 20, 7), draw(np.array([2, 0, 5]), 20, 7)
        assert torch.equal(more[:2], some[[2, 0]])
        assert not torch.equal(draw(np.array([0]), 20, 8)[0], some[0])
    digest = hashlib.sha256(draw_objects(ROWS, 20, 3).numpy().tobytes() + draw_masks(ROWS, 20, 3).numpy().tobytes())
    assert digest.hexdigest()[:16] == "9a6e17839c0888fb"


def test_a_mask_holds_the_image_s_class_and_the_ground_and_is_the_same_when_it_is_prepared_again(tmp_path):
    params = GeneratedSettings(image_size=20, view_size=20, validation_fraction=0.0)
    few, many = (
        prepare_images("objects", params, PrepareBudget(train_images=n, test_images=50, unlabelled_images=None), 0)
        for n in (60, 100)
    )
    for part in (many.train, many.test):
        assert part.classes == OBJECTS
        for mask, label in zip(part.masks, part.labels.tolist(), strict=True):
            assert mask.unique().tolist() == [0, label + 1]
            assert 0.05 < (mask > 0).double().mean() < 0.5
    assert torch.equal(many.train.masks[:60], few.train.masks)
    save_prepared(tmp_path / "images", few)
    assert load_images(tmp_path / "images" / "validation.safetensors").masks.shape == (0, 20, 20)


def test_masks_are_where_the_objects_are_in_luma_and_in_chroma(planes):
    (luma, u, v), where = planes
    for plane in (
        luma,
        u + v,
    ):  # in one image the means of object and ground differ by more than the noise of wrong masks
        apart, wrong = (
            sum(abs(one[mask].mean() - one[~mask].mean()) for one, mask in zip(plane, masks, strict=True))
            for masks in (where, where.roll(3, 0))
        )
        assert apart > 1.5 * wrong


def test_light_is_in_the_luma_alone(planes):
    """Within a ground, luma varies much more than chroma, which has only grain."""
    inner = torch.nn.functional.max_pool2d(planes[1].double(), 3, stride=1, padding=1) == 0
    luma, u, v = (sum(one[mask].std() for one, mask in zip(plane, inner, strict=True)) for plane in planes[0])
    assert luma > 4 * max(u, v)
