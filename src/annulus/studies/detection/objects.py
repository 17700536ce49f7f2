"""Annotations of COCO and LVIS as instances: box, area, segmentation and keypoints, each checked when it is read."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from annulus.studies.detection.annotated import PERSON, Instance, mask_of
from annulus.studies.detection.faults import Refuse, Size, are_numbers, check_empty, checked_box, inside, refused
from annulus.studies.detection.segmentations import checked_segmentation


def instances_of(
    path: Path,
    annotations: Sequence[Mapping[str, Any]],
    sizes: Mapping[int, Size],
    masks: bool,
    points: bool,
    drop_empty: bool,
) -> dict[int, tuple[Instance, ...]]:
    """Instances by image id, with segmentations and keypoints where they are asked for.

    Where the file gives no area, it is the mask's, or without masks the box's.
    An annotation whose box (or, of masks, segmentation) has no area can be neither learned nor found. COCO's train2017
    has a few: Detectron2 leaves them out of training, as `drop_empty` does, with a warning.

    Raises:
        InputError: for those without `drop_empty`, and for a value that the format does not have, with file,
            annotation, key and value.
    """
    of_images: dict[int, list[Instance]] = {number: [] for number in sizes}
    empty = []
    for record in annotations:
        refuse = partial(refused, path, f"annotation {record['id']}")
        instance = _instance(record, sizes[record["image_id"]], masks, points, refuse)
        if instance is None:
            empty.append(record["id"])
        else:
            of_images[record["image_id"]].append(instance)
    check_empty(path, empty, "annotation", drop_empty)
    return {number: tuple(some) for number, some in of_images.items()}


def _instance(record: Mapping[str, Any], size: Size, masks: bool, points: bool, refuse: Refuse) -> Instance | None:
    """One annotation, or None where it has no area."""
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
        return replace(instance, area=float(mask_of(instance, height, width).sum()))
    return instance


def _keypoints(points: Any, size: Size, refuse: Refuse) -> tuple[float, ...]:
    """x, y and visibility of a person's points. Unlabelled points may be anywhere."""
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
