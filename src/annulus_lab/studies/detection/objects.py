"""Reads annotations of COCO and LVIS as instances: box, area, segmentation and keypoints, each with its checks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from annulus_lab.studies.detection.annotated import PERSON, Instance, decode_mask
from annulus_lab.studies.detection.faults import Refuse, Size, are_numbers, check_empty, checked_box, inside, refused
from annulus_lab.studies.detection.segmentations import checked_segmentation


def read_instances(
    path: Path,
    annotations: Sequence[Mapping[str, Any]],
    sizes: Mapping[int, Size],
    masks: bool,
    points: bool,
    drop_empty: bool,
) -> dict[int, tuple[Instance, ...]]:
    """Instances by image id; `masks` adds segmentations, `points` keypoints.

    If the file has no area, it is the mask's, or without masks the box's.
    A detector cannot learn or find an annotation whose box (with masks: segmentation) has no area. COCO's train2017 has
    a few. Detectron2 leaves them out of training, and so does `drop_empty`, with a warning.

    Raises:
        InputError: for an annotation without area, unless `drop_empty`; and for a value outside of the format, with
            file, annotation, key and value.
    """
    by_image: dict[int, list[Instance]] = {number: [] for number in sizes}
    empty = []
    for record in annotations:
        refuse = partial(refused, path, f"annotation {record['id']}")
        instance = _instance(record, sizes[record["image_id"]], masks, points, refuse)
        if instance is None:
            empty.append(record["id"])
        else:
            by_image[record["image_id"]].append(instance)
    check_empty(path, empty, "annotation", drop_empty)
    return {number: tuple(some) for number, some in by_image.items()}


def _instance(record: Mapping[str, Any], size: Size, masks: bool, points: bool, refuse: Refuse) -> Instance | None:
    """Instance of one annotation; None if it has no area."""
    box = checked_box(record.get("bbox"), size, refuse)
    shape = checked_segmentation(record.get("segmentation"), size, refuse) if masks else None
    keypoints = _keypoints(record.get("keypoints"), size, refuse) if points else None
    crowd = record.get("iscrowd", 0)
    if type(crowd) not in (int, bool) or crowd not in (0, 1):
        raise refuse("iscrowd", crowd, "0 or 1")
    if box is None or (masks and shape is None):
        return None
    area = record.get("area", box[2] * box[3])
    if not are_numbers([area]) or area < 0:
        raise refuse("area", area, "a number of pixels")
    instance = Instance(
        box=box,
        category=record["category_id"],
        area=float(area),
        crowd=bool(crowd),
        segmentation=shape,
        keypoints=keypoints,
        difficult=False,
    )
    if masks and "area" not in record:
        width, height = size
        return replace(instance, area=float(decode_mask(instance, height, width).sum()))
    return instance


def _keypoints(points: Any, size: Size, refuse: Refuse) -> tuple[float, ...]:
    """x, y and visibility of a person's points; unlabelled points may lie anywhere."""
    if not isinstance(points, list) or len(points) != 3 * len(PERSON):
        length = f" of {len(points)} values" if isinstance(points, list) else ""
        raise refuse(
            f"keypoints{length}",
            points,
            f"{len(PERSON)} x 3 = {3 * len(PERSON)}: x, y and visibility. Give a person_keypoints file",
        )
    for place, name in enumerate(PERSON):
        x, y, seen = point = points[3 * place : 3 * place + 3]
        if not are_numbers(point) or seen not in (0, 1, 2) or not (seen == 0 or inside((x,), (y,), size)):
            raise refuse(
                f"keypoint {name}",
                point,
                f"x and y in its picture of {size[0]} x {size[1]} pixels, and visibility 0, 1 or 2",
            )
    return tuple(map(float, points))
