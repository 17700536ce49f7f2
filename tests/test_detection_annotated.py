"""Annotated pictures: masks of polygons and run lengths, and points that a mirror swaps."""

import numpy as np
import pytest
from pycocotools import mask as pycoco

from annulus_lab.studies.detection.annotated import LIMBS, PERSON, Instance, decode_mask, mirrored_pairs, run_lengths


def mask(segmentation, height, width):
    return decode_mask(Instance((0.0, 0.0, 4.0, 4.0), 1, 16.0, False, segmentation, None, False), height, width)


def test_run_lengths_are_those_of_pycocotools_and_come_back_as_the_same_mask():
    bits = np.random.default_rng(0).random((13, 7)) < 0.4
    theirs = pycoco.encode(np.asfortranarray(bits, dtype=np.uint8))
    assert run_lengths(bits) == {"size": [13, 7], "counts": theirs["counts"].decode()}
    assert np.array_equal(mask(run_lengths(bits), 13, 7), bits)


def test_masks_by_hand_of_uncompressed_run_lengths_of_two_polygons_and_of_nothing():
    actual = mask({"size": [3, 2], "counts": [1, 3, 2]}, 3, 2)
    assert actual.tolist() == [[False, True], [True, False], [True, False]], "down the columns, zeros first"
    expected = np.zeros((4, 8), bool)
    expected[0:3, 0:2] = expected[1:2, 4:6] = True
    assert np.array_equal(mask([[0, 0, 2, 0, 2, 3, 0, 3], [4, 1, 6, 1, 6, 2, 4, 2]], 4, 8), expected)
    with pytest.raises(ValueError, match="without segmentation has no mask"):
        mask(None, 4, 4)


def test_a_mirror_swaps_left_and_right_points_of_a_person():
    pairs = mirrored_pairs(PERSON)
    assert len(pairs) == 8
    assert {PERSON[a].removeprefix("left_") for a, _ in pairs} == {PERSON[b].removeprefix("right_") for _, b in pairs}
    swapped = dict(pairs) | {right: left for left, right in pairs}
    assert {frozenset(swapped.get(at, at) for at in limb) for limb in LIMBS} == {frozenset(limb) for limb in LIMBS}
