"""Annotated pictures, in one form for all readers: boxes, masks, keypoints; and detections."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from faster_coco_eval import mask as coco_mask
from jaxtyping import Bool

Box = tuple[float, float, float, float]  # x, y, width, height in pixels

# The points of a COCO person, in the order of the files, and the limbs between them, counted from 0.
PERSON = (
    *("nose", "left_eye", "right_eye", "left_ear", "right_ear", "left_shoulder", "right_shoulder"),
    *("left_elbow", "right_elbow", "left_wrist", "right_wrist", "left_hip", "right_hip"),
    *("left_knee", "right_knee", "left_ankle", "right_ankle"),
)
LIMBS = (
    *((15, 13), (13, 11), (16, 14), (14, 12), (11, 12), (5, 11), (6, 12), (5, 6), (5, 7), (6, 8)),
    *((7, 9), (8, 10), (1, 2), (0, 1), (0, 2), (1, 3), (2, 4), (3, 5), (4, 6)),
)


@dataclass(frozen=True)
class Category:
    """Class of objects, by its number in the annotation file (VOC: 1 to 20 in the order of the names)."""

    id: int
    name: str
    frequency: str | None  # of LVIS: r, c or f, for rare, common and frequent


@dataclass(frozen=True)
class Instance:
    """Annotated object. Visibility of a keypoint: 0 without a label, 1 hidden, 2 visible."""

    box: Box
    category: int  # a Category's id
    area: float  # of the mask, or without a mask of the box, in pixels
    crowd: bool  # a box around many objects: detections inside are neither right nor wrong
    segmentation: list | dict | None  # COCO's polygons, or run lengths
    keypoints: tuple[float, ...] | None  # x, y and visibility of 17 points
    difficult: bool  # of VOC: a detection of it is neither right nor wrong


@dataclass(frozen=True)
class Picture:
    """Image file and the objects in it."""

    id: int
    file: Path
    width: int
    height: int
    instances: tuple[Instance, ...]
    negative: tuple[int, ...]  # of LVIS: categories that are known to be absent
    not_exhaustive: tuple[int, ...]  # of LVIS: categories with possibly unlabelled objects


@dataclass(frozen=True)
class Annotated:
    """Split of a data set. The last three fields describe keypoints; limbs and mirrored pairs count from 0."""

    kind: str  # of TaskParams
    pictures: tuple[Picture, ...]
    categories: tuple[Category, ...]
    skeleton: tuple[tuple[int, int], ...] | None
    keypoint_names: tuple[str, ...] | None
    flip_pairs: tuple[tuple[int, int], ...] | None


@dataclass(frozen=True)
class Detection:
    """Detected object, in the pixels of the picture's file."""

    picture: int  # a Picture's id
    category: int  # a Category's id
    box: Box
    score: float
    segmentation: dict | None  # of `run_lengths`
    keypoints: tuple[float, ...] | None  # x, y and score of 17 points


def decode_mask(instance: Instance | Detection, height: int, width: int) -> Bool[np.ndarray, "h w"]:
    """Pixels of a segmentation; raises ValueError if the instance has none."""
    shape = instance.segmentation
    if shape is None:
        raise ValueError("an instance without segmentation has no mask")
    if isinstance(shape, list):
        shape = coco_mask.merge(coco_mask.frPyObjects(shape, height, width))
    elif isinstance(shape["counts"], list):
        shape = coco_mask.frPyObjects(shape, height, width)
    return coco_mask.decode(shape).astype(bool)


def run_lengths(mask: Bool[np.ndarray, "h w"]) -> dict:
    """Run lengths of a mask in COCO's compressed form: `size` (height, width) and `counts`, a string."""
    rle = coco_mask.encode(np.asfortranarray(mask, dtype=np.uint8))
    counts = rle["counts"]
    return {
        "size": [int(side) for side in rle["size"]],
        "counts": counts if isinstance(counts, str) else counts.decode("ascii"),
    }


def mirrored_pairs(names: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Pairs of points that a mirrored picture exchanges, by their names: left_eye and right_eye."""
    return tuple(
        (place, names.index(name.replace("left", "right", 1)))
        for place, name in enumerate(names)
        if name.startswith("left") and name.replace("left", "right", 1) in names
    )
