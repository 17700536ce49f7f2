"""Mosaics: the same bytes everywhere, the class of the middle, and near places that share more than far places."""

import hashlib

import numpy as np
import torch

from annulus.datasets.mosaics import draw_mosaics
from annulus.datasets.shapes import CLASSES


def test_a_mosaic_depends_on_its_row_its_size_and_the_key_alone():
    some, more = draw_mosaics(np.arange(3), 40, 7), draw_mosaics(np.array([2, 0, 5]), 40, 7)
    assert torch.equal(more[:2], some[[2, 0]])
    assert not torch.equal(draw_mosaics(np.array([0]), 40, 8)[0], some[0])
    digest = hashlib.sha256(draw_mosaics(np.arange(4), 90, 3).numpy().tobytes())
    assert digest.hexdigest()[:16] == "9bd5b5243bf12de7"


def test_the_class_is_that_of_the_middle():
    """The class has the hue of the middle object, which is bright on a dark ground."""
    for channel, hue in enumerate(("red", "green", "blue")):
        rows = np.array([row for row, name in enumerate(CLASSES) if name.startswith(hue)])
        middle = draw_mosaics(np.concatenate([rows, rows + 100]), 60, 1)[:, :, 15:45, 15:45].double()
        assert middle.flatten(2).topk(60, dim=2).values.mean(dim=(0, 2)).argmax() == channel, hue


def test_two_places_share_less_the_farther_they_are():
    mosaics = draw_mosaics(np.arange(150), 120, 5).double()
    places = [mosaics[:, :, at : at + 16, at : at + 16].mean(dim=(2, 3)).flatten() for at in (0, 4, 30, 100)]
    near, far, farther = torch.corrcoef(torch.stack(places))[0, 1:].tolist()
    assert near > 0.7
    assert near > far + 0.2 > farther + 0.25
