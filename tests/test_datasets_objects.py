"""Objects: the same bytes everywhere, masks that are the objects, and light that is in the luma alone."""

import hashlib

import numpy as np
import torch

from annulus.config.images import ObjectsParams
from annulus.config.training import PrepareScale
from annulus.datasets.objects import OBJECTS, draw_masks, draw_objects
from annulus.datasets.prepare import prepare_images, save_prepared
from annulus.files.images import load_images
from annulus.views.spaces import rgb_to_yuv

ROWS = np.arange(200)


def planes(rows=ROWS):
    """Luma, U and V, (3, n, h, w), and where the objects are."""
    return rgb_to_yuv(draw_objects(rows, 20, 1).double() / 255).unbind(1), draw_masks(rows, 20, 1) > 0


def test_an_image_and_its_mask_depend_on_the_row_the_size_and_the_key_alone():
    for draw in (draw_objects, draw_masks):
        some, more = draw(np.arange(3), 20, 7), draw(np.array([2, 0, 5]), 20, 7)
        assert torch.equal(more[:2], some[[2, 0]])
        assert not torch.equal(draw(np.array([0]), 20, 8)[0], some[0])
    digest = hashlib.sha256(draw_objects(ROWS, 20, 3).numpy().tobytes() + draw_masks(ROWS, 20, 3).numpy().tobytes())
    assert digest.hexdigest()[:16] == "9a6e17839c0888fb"


def test_a_mask_holds_the_image_s_class_and_the_ground():
    prepared = prepare_images(
        "objects",
        ObjectsParams(image_size=20, view_size=20, validation_fraction=0.1),
        PrepareScale(train_images=100, test_images=50),
        0,
    )
    for part in (prepared.train, prepared.validation, prepared.test):
        assert part.classes == OBJECTS
        for mask, label in zip(part.masks, part.labels.tolist(), strict=True):
            assert mask.unique().tolist() == [0, label + 1]
            assert 0.05 < (mask > 0).double().mean() < 0.5


def test_masks_are_where_the_objects_are_in_luma_and_in_chroma():
    (luma, u, v), where = planes()
    for plane in (luma, u + v):  # of one image the object's mean is far from the ground's, beside noise of that mean
        apart = [abs(one[mask].mean() - one[~mask].mean()) for one, mask in zip(plane, where, strict=True)]
        wrong = [abs(one[mask].mean() - one[~mask].mean()) for one, mask in zip(plane, where.roll(3, 0), strict=True)]
        assert sum(apart) > 1.5 * sum(wrong)


def test_light_is_in_the_luma_alone():
    """Within a ground, luma varies much more than chroma, which has only grain."""
    (luma, u, v), where = planes()
    inner = torch.nn.functional.max_pool2d(where.double(), 3, stride=1, padding=1) == 0
    spread = [
        torch.stack([one[mask].std() for one, mask in zip(plane, inner, strict=True)]).mean() for plane in (luma, u, v)
    ]
    assert spread[0] > 4 * spread[1]
    assert spread[0] > 4 * spread[2]


def test_what_is_prepared_again_has_the_same_masks(tmp_path):
    params = ObjectsParams(image_size=16, view_size=16, validation_fraction=0.0)
    few, many = (prepare_images("objects", params, PrepareScale(train_images=n, test_images=50), 0) for n in (50, 80))
    assert torch.equal(many.train.masks[:50], few.train.masks)
    save_prepared(tmp_path / "images", few)
    assert load_images(tmp_path / "images" / "validation.safetensors").masks.shape == (0, 16, 16)
