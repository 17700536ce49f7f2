"""Reads annotation files of COCO and LVIS in JSON: images, categories and ids, checked before any training."""

import json
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus.files.regular import check_regular
from annulus_lab.studies.detection.faults import Size, ids_text, is_id, is_name, refused

PARTS = ("images", "annotations", "categories")
Record = dict[str, Any]


def read_records(path: Path) -> dict[str, list[Record]]:
    """Images and categories of a file, sorted by id, and annotations in the file's order.

    Ids are unique, annotations name known ids, images have a size and categories a name. `objects.read_instances`
    checks the rest of the annotations.

    Raises:
        InputError: when the file is missing, has another content, or ids do not fit together.
    """
    try:
        check_regular(path)
        content = json.loads(path.read_bytes())
    except FileNotFoundError as error:
        raise InputError(f"{path} does not exist; put the annotation file there, or name another folder") from error
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read as JSON ({error}); fetch it again") from error
    missing = [part for part in PARTS if not isinstance(content, dict) or not isinstance(content.get(part), list)]
    if missing:
        raise InputError(
            f"{path} has no list of {' and of '.join(missing)}; a COCO or LVIS file has {', '.join(PARTS)}"
        )
    images, annotations, categories = (_by_id(path, part, content[part]) for part in PARTS)
    for part, held in (("image", images), ("category", categories)):
        if not held:
            raise InputError(f"{path} has no {part}; fetch it again, or name another file")
    for number, image in images.items():
        for key in ("width", "height"):
            if type(image.get(key)) is not int or image[key] < 1:
                raise refused(path, f"image {number}", key, image.get(key), "a whole number of pixels")
    for number, category in categories.items():
        if not is_name(category.get("name")):
            raise refused(path, f"category {number}", "name", category.get("name"), "text")
    for key, part, known in (("image_id", "images", images), ("category_id", "categories", categories)):
        strays = [
            number
            for number, record in annotations.items()
            if type(record.get(key)) is not int or record[key] not in known
        ]
        if strays:
            raise InputError(
                f"{path}: {ids_text(strays, 'annotation')} whose {key} is not in {part} (the first has "
                f"{reprlib.repr(annotations[strays[0]].get(key))}); the file is cut or two files were mixed, fetch it "
                "again"
            )
    return {
        "images": [images[number] for number in sorted(images)],
        "annotations": list(annotations.values()),
        "categories": [categories[number] for number in sorted(categories)],
    }


def image_sizes(images: list[Record]) -> Mapping[int, Size]:
    """Width and height of the images by id."""
    return {image["id"]: (image["width"], image["height"]) for image in images}


def _by_id(path: Path, part: str, records: list[Any]) -> dict[int, Record]:
    """Entries of a part by id."""
    by_id: dict[int, Record] = {}
    for record in records:
        number = record.get("id") if isinstance(record, dict) else None
        if not is_id(number):
            raise InputError(
                f"{path}: an entry of {part} has the id {reprlib.repr(number)}; every one needs a whole number below "
                "2 ** 63"
            )
        if number in by_id:
            raise InputError(f"{path}: id {number} stands twice in {part}; ids are unique, correct or remove one")
        by_id[number] = record
    return by_id
