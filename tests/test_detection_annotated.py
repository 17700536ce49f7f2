"""Annotated pictures: masks of polygons and run lengths, and points that a mirror swaps."""

import numpy as np
import pytest
from pycocotools import mask as pycoco

from annulus.detection.annotated import LIMBS, PERSON, Instance, flip_pairs_of, mask_of, rle_of


def instance(segmentation):
    return Instance((0.0, 0.0, 4.0, 4.0), 1, 16.0, False, segmentation, None, False)


def test_run_lengths_are_those_of_pycocotools_and_come_back_as_the_same_mask():
    mask = np.random.default_rng(0).random((13, 7)) < 0.4
    theirs = pycoco.encode(np.asfortranarray(mask, dtype=np.uint8))
    assert rle_of(mask) == {"size": [13, 7], "counts": theirs["counts"].decode()}
    assert np.array_equal(mask_of(instance(rle_of(mask)), 13, 7), mask)


def test_uncompressed_run_lengths_run_down_the_columns_and_begin_with_zeros():
    mask = mask_of(instance({"size": [3, 2], "counts": [1, 3, 2]}), 3, 2)
    assert np.array_equal(mask, np.array([[0, 1], [1, 0], [1, 0]], bool))


def test_the_mask_of_several_polygons_is_their_union():
    left, right = [0, 0, 2, 0, 2, 3, 0, 3], [4, 1, 6, 1, 6, 2, 4, 2]
    expected = np.zeros((4, 8), bool)
    expected[0:3, 0:2] = expected[1:2, 4:6] = True
    assert np.array_equal(mask_of(instance([left, right]), 4, 8), expected)


def test_an_instance_without_segmentation_has_no_mask():
    with pytest.raises(ValueError, match="without segmentation has no mask"):
        mask_of(instance(None), 4, 4)


def test_a_mirror_swaps_left_and_right_points_of_a_person():
    pairs = flip_pairs_of(PERSON)
    assert len(pairs) == 8
    assert {PERSON[a].removeprefix("left_") for a, _ in pairs} == {PERSON[b].removeprefix("right_") for _, b in pairs}
    swapped = dict(pairs) | {right: left for left, right in pairs}
    limbs = {frozenset(limb) for limb in LIMBS}
    assert {frozenset(swapped.get(point, point) for point in limb) for limb in LIMBS} == limbs
