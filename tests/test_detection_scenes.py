"""Generated scenes: the visible share of each thing, and the formats that are written and read again."""

import hashlib
import json
from collections import Counter
from dataclasses import replace
from functools import cache
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from annulus.datasets.outlines import OUTLINES
from annulus.device.rng import derive
from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import LIMBS, PERSON, decode_mask
from annulus_lab.studies.detection.average_precision import TASKS
from annulus_lab.studies.detection.federation import NEGATIVES, federated
from annulus_lab.studies.detection.layouts import EQUAL, drawn, lvis_frequency, write_scenes
from annulus_lab.studies.detection.polygons import bounding_box, mask_rectangles
from annulus_lab.studies.detection.scenes import KINDS_OF_OBJECTS, LEAST_SEEN, draw_scene
from annulus_lab.studies.detection.scenes_params import SceneParams
from annulus_lab.studies.detection.splits import read_splits

PARAMS = SceneParams(image_size=48, train=10, val=5, most_objects=4, format="png")


@cache
def scenes(persons: bool, count: int = 30, size: int = 64):
    return [draw_scene(row, size, 4, EQUAL, 11, persons) for row in range(count)]


def things(persons: bool, **changes):
    return [(scene, thing) for scene in scenes(persons, **changes) for thing in scene.things]


def test_scenes_are_the_same_pixels_everywhere():
    digest = hashlib.sha256()
    for persons in (False, True):
        for scene in scenes(persons)[:6]:
            digest.update(scene.image.tobytes())
            for thing in scene.things:
                digest.update(thing.mask.tobytes() + repr(thing.keypoints).encode())
    assert digest.hexdigest()[:16] == "98fb615cf6e73503"


@pytest.mark.parametrize("persons", [False, True])
def test_a_scene_has_one_to_so_many_things_that_share_no_pixel_and_are_seen_well(persons):
    assert {len(scene.things) for scene in scenes(persons)} == {1, 2, 3, 4}
    assert all(np.sum([thing.mask for thing in scene.things], axis=0).max() <= 1 for scene in scenes(persons))
    shares = [thing.seen for _, thing in things(persons)]
    assert LEAST_SEEN <= min(shares) < max(shares) == 100, "some hide others"


def test_an_object_has_the_colour_and_the_outline_of_its_class():
    """The strongest channel inside shows the colour, the share of the box the outline: a disc pi / 4, a star less."""
    strongest = {"red": {0}, "lime": {0, 1}, "green": {1}, "blue": {1, 2}, "purple": {0, 2}}
    for scene, thing in things(persons=False):
        hue = KINDS_OF_OBJECTS[thing.label].split("-")[0]
        assert int(scene.image[thing.mask].mean(axis=0).argmax()) in strongest[hue]
    shares = {outline: [] for outline in OUTLINES}
    for _, thing in things(persons=False, count=120, size=96):
        x, y, width, height = bounding_box(thing.mask)
        if thing.seen == 100 and min(x, y) > 0 and max(x + width, y + height) < 96:
            shares[list(OUTLINES)[thing.label % 5]].append(thing.mask.sum() / (width * height))
    means = {outline: np.mean(values) for outline, values in shares.items()}
    assert means["disc"] == pytest.approx(np.pi / 4, abs=0.03)
    assert means["ring"] == pytest.approx(np.pi / 4 * (1 - 0.55**2), abs=0.04)
    assert means["star"] < means["triangle"] < means["disc"]


def test_keypoints_are_0_outside_and_1_behind_another_and_lie_on_the_person_where_they_are_seen():
    counts = Counter()
    for scene, thing in things(persons=True):
        before = np.zeros((64, 64), bool)
        for other in scene.things[: [one is thing for one in scene.things].index(True)]:
            before |= other.mask
        for name, (x, y, visible) in zip(PERSON, np.reshape(thing.keypoints, (17, 3)).tolist(), strict=True):
            counts[name, visible] += 1
            near = slice(max(int(y) - 1, 0), int(y) + 2), slice(max(int(x) - 1, 0), int(x) + 2)
            if visible:
                assert (before if visible == 1 else thing.mask)[near].any(), (name, visible)
            else:
                assert (x, y) == (0, 0)
    assert {visible for name, visible in counts if name == "left_wrist"} == {0, 1, 2}
    assert counts["nose", 0] > counts["left_ear", 0], "from behind a person has ears, but no nose"


def test_a_person_seen_from_the_front_has_the_left_side_at_the_right_of_the_picture():
    for _, thing in things(persons=True):
        nose, left, right = np.reshape(thing.keypoints, (17, 3))[
            [PERSON.index(n) for n in ("nose", "left_ear", "right_ear")]
        ]
        if left[2] and right[2] and nose[2]:
            assert left[0] > right[0]
        elif left[2] and right[2] and min(left[1], right[1]) > 10:  # the nose lies between, in the picture
            assert left[0] < right[0]


def test_polygons_cover_a_mask_exactly_with_few_rectangles_and_boxes_are_tight():
    random = np.random.default_rng(0)
    for density in (0.05, 0.5, 0.95):
        mask = random.random((13, 9)) < density
        inside = np.zeros_like(mask)
        for left, top, right, _, _, bottom, _, _ in mask_rectangles(mask):
            inside[top:bottom, left:right] = True
        assert np.array_equal(inside, mask)
        x, y, width, height = bounding_box(mask)
        assert mask[y : y + height, x : x + width].sum() == mask.sum()
        sides = (mask[y], mask[y + height - 1], mask[:, x], mask[:, x + width - 1])
        assert all(side.any() for side in sides)
    mask = np.zeros((9, 9), dtype=bool)
    mask[2:7, 1:4] = mask[4:7, 6:8] = True
    assert mask_rectangles(mask) == [[1, 2, 4, 2, 4, 7, 1, 7], [6, 4, 8, 4, 8, 7, 6, 7]]


@pytest.mark.parametrize("kind", TASKS)
def test_what_is_read_is_what_was_drawn(kind, tmp_path):
    write_scenes(tmp_path, kind, PARAMS, seed=3)
    partly = 0
    train, val = read_splits(tmp_path, kind, drop_empty=False)
    assert (len(train.pictures), len(val.pictures)) == (10, 5)
    for split, read in (("train", train), ("val", val)):
        names = {category.id: category.name for category in read.categories}
        for (number, scene), picture in zip(drawn(kind, split, PARAMS, seed=3), read.pictures, strict=True):
            assert np.array_equal(np.asarray(Image.open(picture.file)), scene.image)
            known = federated(scene, number, derive(3, "federation", split))
            if kind == "lvis":
                assert picture.negative == tuple(label + 1 for label in known.negative)
                assert picture.not_exhaustive == tuple(label + 1 for label in known.not_exhaustive)
                partly += len(picture.not_exhaustive)
            for thing, one in zip(known.things if kind == "lvis" else scene.things, picture.instances, strict=True):
                assert (one.box, one.keypoints) == (bounding_box(thing.mask), thing.keypoints)
                assert kind == "keypoints" or KINDS_OF_OBJECTS[thing.label].endswith(names[one.category])
                assert one.difficult == (kind == "voc" and thing.seen < 60)
                if kind in ("masks", "lvis"):
                    assert np.array_equal(decode_mask(one, 48, 48), thing.mask)
                    assert one.area == thing.mask.sum()
    assert (train.skeleton == LIMBS) == (kind == "keypoints")
    assert (partly > 0) == (kind == "lvis")


def test_other_seeds_draw_other_scenes_and_test_pictures_are_not_those_of_training():
    cases = (("train", 0), ("val", 0), ("train", 1))
    images = [next(iter(drawn("boxes", split, PARAMS, seed)))[1].image for split, seed in cases]
    assert len({image.tobytes() for image in images}) == 3


def test_jpeg_is_written_where_it_is_asked_for(tmp_path):
    write_scenes(tmp_path, "voc", replace(PARAMS, format="jpg"), seed=3)
    assert (tmp_path / "JPEGImages/000001.jpg").read_bytes().startswith(b"\xff\xd8")
    assert ElementTree.parse(tmp_path / "Annotations/000001.xml").findtext("filename") == "000001.jpg"
    lines = (tmp_path / "ImageSets/Main/disc_trainval.txt").read_text().splitlines()
    assert [line.split()[0] for line in lines] == (tmp_path / "ImageSets/Main/trainval.txt").read_text().split()


def test_a_federation_says_of_absent_categories_only_that_they_are_absent():
    partly, unknown = 0, 0
    for number, scene in enumerate(scenes(persons=False, count=120, size=96)):
        known = federated(scene, number, key=5)
        present, labelled = (Counter(thing.label for thing in each.things) for each in (scene, known))
        assert len(known.negative) == NEGATIVES
        assert not set(known.negative) & set(present)
        assert set(known.not_exhaustive) == {label for label in labelled if labelled[label] < present[label]}
        partly, unknown = partly + len(known.not_exhaustive), unknown + len(set(present) - set(labelled))
    assert partly > 0
    assert unknown > 0


def test_frequencies_are_counted_in_training_images_and_stand_in_both_files(tmp_path):
    """A category is rare up to ten images and common up to a hundred."""
    assert "".join(map(lvis_frequency, (1, 10, 11, 100, 101))) == "rrccf"
    write_scenes(tmp_path, "lvis", replace(PARAMS, train=40), seed=0)
    files = [json.loads((tmp_path / f"annotations/lvis_v1_{split}.json").read_text()) for split in ("train", "val")]
    assert files[0]["categories"] == files[1]["categories"]
    images = Counter(category for _, category in {(o["image_id"], o["category_id"]) for o in files[0]["annotations"]})
    for category in files[0]["categories"]:
        assert category["image_count"] == images[category["id"]]
        assert category["frequency"] == lvis_frequency(category["image_count"])
    assert {category["frequency"] for category in files[0]["categories"]} == {"r", "c"}


def test_a_folder_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=r"cannot write .*file: Not a directory; free some space"):
        write_scenes(tmp_path / "file", "boxes", PARAMS, 0)
