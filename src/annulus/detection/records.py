"""Annotation files in JSON, of COCO and LVIS: read, and checked before anything is trained on them."""

import json
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from annulus.detection.annotated import PERSON, Annotated, Box, Instance
from annulus.errors import InputError

log = logging.getLogger(__name__)

Rest = ParamSpec("Rest")
PARTS = ("images", "annotations", "categories")
Reader = Callable[Concatenate[Path, Rest], Annotated]


def well_formed(read: Reader[Rest]) -> Reader[Rest]:
    """A reader that says in a sentence when an entry of its file lacks what the format has, or holds another type."""

    @wraps(read)
    def reader(annotations: Path, *rest: Rest.args, **options: Rest.kwargs) -> Annotated:
        try:
            return read(annotations, *rest, **options)
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise InputError(
                f"{annotations}: an entry lacks something or holds what it should not "
                f"({type(error).__name__}: {error}); the format is that of https://cocodataset.org/#format-data"
            ) from error

    return reader


def read_records(path: Path) -> dict[str, list[dict[str, Any]]]:
    """The images, annotations and categories of a file; ids are unique, and annotations name known ones.

    Raises:
        InputError: when the file is missing or holds something else, or ids do not fit together.
    """
    try:
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; put the annotation file there, or name another folder") from error
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}); fetch it again") from error
    missing = [part for part in PARTS if not isinstance(content, dict) or not isinstance(content.get(part), list)]
    if missing:
        raise InputError(
            f"{path} has no list of {' and of '.join(missing)}; a COCO or LVIS file has {', '.join(PARTS)}"
        )
    ids = {part: _unique(path, part, content[part]) for part in PARTS}
    for key, part in (("image_id", "images"), ("category_id", "categories")):
        strays = [record["id"] for record in content["annotations"] if record.get(key) not in ids[part]]
        if strays:
            raise InputError(
                f"{path}: {counted(strays, 'annotation')} whose {key} is not in {part}; "
                "the file is cut or two files were mixed, fetch it again"
            )
    return {part: content[part] for part in PARTS}


def instances_of(
    path: Path, annotations: Sequence[Mapping[str, Any]], masks: bool, points: bool, drop_empty: bool
) -> dict[int, list[Instance]]:
    """Instances by image id, with segmentations and keypoints where they are asked for.

    An annotation whose box (or, of masks, segmentation) has no area can be neither learned nor found. COCO's train2017
    has a few: Detectron2 leaves them out of training, as `drop_empty` does, with a warning.

    Raises:
        InputError: for those without `drop_empty`, and for a box that is not four numbers or keypoints not 17 x 3.
    """
    of_images: dict[int, list[Instance]] = {}
    empty = []
    for record in annotations:
        instance = _instance(path, record, masks, points)
        if instance is None:
            empty.append(record["id"])
        else:
            of_images.setdefault(record["image_id"], []).append(instance)
    check_empty(path, empty, "annotation", drop_empty)
    return of_images


def check_empty(path: Path, empty: Sequence[Any], what: str, drop: bool) -> None:
    """What has no area, by id or name, is refused, or left out with a warning."""
    if empty and not drop:
        raise InputError(
            f"{path}: {counted(empty, what)} without area, which nothing can find; correct them, or leave them out "
            "with drop_empty: true"
        )
    if empty:
        log.warning("%s: %s without area left out", path, counted(empty, what))


def counted(ids: Sequence[Any], what: str) -> str:
    """How many, and the first three: "2 annotations (5, 7)"."""
    shown = ", ".join(str(id) for id in ids[:3]) + (", ..." if len(ids) > 3 else "")
    return f"{len(ids)} {what}{'' if len(ids) == 1 else 's'} ({shown})"


def _unique(path: Path, part: str, records: Sequence[Any]) -> set[int]:
    """The ids of a part."""
    seen: set[int] = set()
    for record in records:
        number = record.get("id") if isinstance(record, dict) else None
        if not isinstance(number, int):
            raise InputError(f"{path}: an entry of {part} has the id {number!r}; every one needs a whole number")
        if number in seen:
            raise InputError(f"{path}: id {number} stands twice in {part}; ids are unique, correct or remove one")
        seen.add(number)
    return seen


def _instance(path: Path, record: Mapping[str, Any], masks: bool, points: bool) -> Instance | None:
    """One annotation, or None where it has no area."""
    box = _box(path, record)
    shape = record.get("segmentation") if masks else None
    if isinstance(shape, list):
        shape = [[float(at) for at in polygon] for polygon in shape if len(polygon) >= 6 and len(polygon) % 2 == 0]
    if min(box[2:]) <= 0 or (masks and not shape):
        return None
    return Instance(
        box=box,
        category=record["category_id"],
        area=float(record.get("area", box[2] * box[3])),
        crowd=bool(record.get("iscrowd", 0)),
        segmentation=shape,
        keypoints=_keypoints(path, record) if points else None,
        difficult=False,
    )


def _box(path: Path, record: Mapping[str, Any]) -> Box:
    box = record.get("bbox")
    if not (
        isinstance(box, list) and len(box) == 4 and all(isinstance(at, int | float) and math.isfinite(at) for at in box)
    ):
        raise InputError(
            f"{path}: annotation {record['id']} has the bbox {box!r}; expected x, y, width and height in pixels"
        )
    return float(box[0]), float(box[1]), float(box[2]), float(box[3])


def _keypoints(path: Path, record: Mapping[str, Any]) -> tuple[float, ...]:
    points = record.get("keypoints")
    expected = 3 * len(PERSON)
    if not isinstance(points, list) or len(points) != expected:
        held = f"{len(points)} numbers" if isinstance(points, list) else repr(points)
        raise InputError(
            f"{path}: annotation {record['id']} has {held} as keypoints; a person has {len(PERSON)} x 3 "
            f"= {expected}: x, y and visibility. Give a person_keypoints file"
        )
    return tuple(float(at) for at in points)
