"""The picture grid: masks, boxes, names, limbs and detections in their places."""

from dataclasses import replace

import numpy as np
from detection_cases import SIDE, annotated, boxed, detect
from PIL import Image

from annulus.files.sheets import GAP
from annulus_lab.studies.detection.annotated import PERSON, Detection
from annulus_lab.studies.detection.detection_grid import COLOURS, TILE, TINT, drawn, grid

BLACK = (0, 0, 0)


def on_black(folder, *objects, kind="masks", classes=2):
    Image.new("RGB", (SIDE, SIDE)).save(folder / "1.png")
    truth = annotated(kind, list(objects), categories=(None,) * classes)
    return replace(truth, pictures=(replace(truth.pictures[0], file=folder / "1.png"),))


def at(image, x, y):
    """Colour of the drawing at a pixel of the file."""
    return image.getpixel((round(x * TILE / SIDE), round(y * TILE / SIDE)))


def test_a_mask_is_tinted_and_its_box_drawn_in_the_colour_of_the_category_and_its_name_stays_inside(tmp_path):
    truth = on_black(tmp_path, boxed(20, 30, 40, 50, category=2))
    image = drawn(truth, truth.pictures[0], truth.pictures[0].instances)
    assert image.size == (TILE, TILE)
    assert at(image, 40, 60) == tuple(int(TINT * channel) for channel in COLOURS[1])
    assert at(image, 20, 60) == at(image, 40, 80) == COLOURS[1]
    assert at(image, 80, 60) == at(image, 40, 100) == BLACK
    truth = on_black(tmp_path, boxed(110, 0, 10, 10))
    image = np.asarray(drawn(truth, truth.pictures[0], truth.pictures[0].instances))
    white = np.argwhere((image > 180).all(axis=2))
    assert white[:, 1].max() < TILE - 1
    assert white.shape[0] > 20


def test_the_truth_stands_above_the_best_detections_as_many_as_there_are_objects(tmp_path):
    truth = on_black(tmp_path, boxed(20, 30, 40, 50))
    both = [detect(70, 30, 40, 50, score=0.1), detect(20, 30, 40, 50, score=0.2)]
    image = grid(truth, {"ring": [], "ir": both})
    left = image.width - TILE - GAP
    tops = [GAP + row * (TILE + GAP) for row in range(3)]
    tiles = [image.crop((left, top, left + TILE, top + TILE)) for top in tops]
    assert at(tiles[0], 40, 60) == at(tiles[2], 40, 60) != BLACK
    assert at(tiles[2], 90, 60) == BLACK, "of one object only one detection is drawn"
    assert tiles[1].getbbox() is None


def test_limbs_join_labelled_points_only_and_of_detections_all(tmp_path):
    points = np.zeros((17, 3))
    for name, y, visible in (("shoulder", 20, 2), ("elbow", 60, 1), ("wrist", 100, 0)):  # visible, hidden, not labelled
        points[PERSON.index(f"left_{name}")] = (60, y, visible)
    one = replace(boxed(10, 10, 100, 100), segmentation=None, keypoints=tuple(points.ravel().tolist()))
    truth = on_black(tmp_path, one, kind="keypoints", classes=1)
    image = drawn(truth, truth.pictures[0], [one])
    assert at(image, 60.5, 40) == COLOURS[0]
    assert at(image, 60.5, 80) == BLACK
    assert at(image, 60.5, 20.5) == (255, 255, 255)
    assert at(image, 60.5, 60.5) != (255, 255, 255), "a hidden point is hollow"
    detection = Detection(1, 1, one.box, 0.9, None, one.keypoints)
    assert at(drawn(truth, truth.pictures[0], [detection]), 60.5, 80) == COLOURS[0]
