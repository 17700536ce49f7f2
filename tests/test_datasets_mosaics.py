"""Mosaics: the same bytes everywhere, the class of the middle, and near places that share more than far ones."""

import hashlib

import numpy as np
import torch

from annulus.datasets.mosaics import draw_mosaics
from annulus.datasets.shapes import CLASSES

SIZE = 120


def patch(mosaics, top, left):
    """Mean colours of patches of 16 pixels, (n, 3)."""
    return mosaics[:, :, top : top + 16, left : left + 16].double().mean(dim=(2, 3))


def test_a_mosaic_depends_on_its_row_its_size_and_the_key_alone():
    some, more = draw_mosaics(np.arange(3), 40, 7), draw_mosaics(np.array([2, 0, 5]), 40, 7)
    assert torch.equal(more[:2], some[[2, 0]])
    assert not torch.equal(draw_mosaics(np.array([0]), 40, 8)[0], some[0])
    digest = hashlib.sha256(draw_mosaics(np.arange(4), 90, 3).numpy().tobytes()).hexdigest()
    assert digest[:16] == "9bd5b5243bf12de7"


def test_the_class_is_that_of_the_middle():
    """The hue of the object in the middle, which is bright on a dark ground: of red, green and blue mosaics."""
    for number, hue in ((0, "red"), (2, "green"), (3, "blue")):
        rows = np.array([row for row, name in enumerate(CLASSES) if name.startswith(hue)])
        middle = draw_mosaics(np.concatenate([rows, rows + 100, rows + 200]), 60, 1)[:, :, 15:45, 15:45].double()
        bright = middle.flatten(2).topk(60, dim=2).values.mean(dim=(0, 2))
        assert bright.argmax() == {0: 0, 2: 1, 3: 2}[number], (hue, bright)


def test_two_places_share_less_the_farther_they_are():
    mosaics = draw_mosaics(np.arange(300), SIZE, 5)
    first = patch(mosaics, 0, 0)
    shared = []
    for offset in (4, 30, 100):
        both = torch.stack([first.flatten(), patch(mosaics, offset, offset).flatten()])
        shared.append(torch.corrcoef(both)[0, 1].item())
    assert shared[0] > 0.7
    assert shared[0] > shared[1] + 0.2 > shared[2] + 0.25
