"""Reader of COCO: boxes, masks, and the keypoints of persons.

The format: https://cocodataset.org/#format-data.

Source: Lin et al. 2014, "Microsoft COCO: common objects in context", ECCV.
"""

from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import PERSON, Annotated, Category, Picture, mirrored_pairs
from annulus_lab.studies.detection.faults import is_name, refused
from annulus_lab.studies.detection.image_files import check_files
from annulus_lab.studies.detection.objects import read_instances
from annulus_lab.studies.detection.records import Record, image_sizes, read_records


def read_coco(annotations: Path, images: Path, kind: str, drop_empty: bool) -> Annotated:
    """Reads a split from its annotation file and the folder of its images. `kind`: boxes, masks or keypoints.

    Keypoints are numbers of pixels, counted from 0: the middle of a pixel lies half a pixel further.

    Raises:
        InputError: when the annotations or the images have a fault, before any training.
    """
    content = read_records(annotations)
    if any("neg_category_ids" in image for image in content["images"]):
        raise InputError(
            f"{annotations} is a file of LVIS (it lists neg_category_ids), not of COCO; read it as kind lvis"
        )
    files = {image["id"]: images / _file_name(annotations, image) for image in content["images"]}
    sizes = image_sizes(content["images"])
    check_files(annotations, files, sizes)
    names = skeleton = None
    if kind == "keypoints":
        names, skeleton = _person(annotations, content["categories"])
    masks, points = kind == "masks", kind == "keypoints"
    by_image = read_instances(annotations, content["annotations"], sizes, masks, points, drop_empty)
    pictures = tuple(
        Picture(number, files[number], *size, by_image[number], negative=(), not_exhaustive=())
        for number, size in sizes.items()
    )
    return Annotated(
        kind=kind,
        pictures=pictures,
        categories=tuple(Category(record["id"], record["name"], None) for record in content["categories"]),
        skeleton=skeleton,
        keypoint_names=names,
        flip_pairs=None if names is None else mirrored_pairs(names),
    )


def _file_name(path: Path, image: Record) -> str:
    name = image.get("file_name")
    if not isinstance(name, str) or not name:
        raise refused(path, f"image {image['id']}", "file_name", name, "the name of a file")
    return name


def _person(path: Path, categories: list[Record]) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """Names of the keypoints, and the limbs, counted from 0; the file counts from 1."""
    if len(categories) != 1 or "keypoints" not in categories[0]:
        raise InputError(
            f"{path} has {len(categories)} categories, of which {sum('keypoints' in c for c in categories)} have "
            "keypoints; expected the one category person, as in person_keypoints_val2017.json"
        )
    person, entry = categories[0], f"category {categories[0]['id']}"
    names, limbs = person["keypoints"], person.get("skeleton", [])
    if not isinstance(names, list) or not all(map(is_name, names)) or not len(names) == len(set(names)) == len(PERSON):
        raise refused(path, entry, "keypoints", names, f"{len(PERSON)} names")
    numbers = range(1, len(PERSON) + 1)
    if not isinstance(limbs, list) or not all(_is_limb(limb, numbers) for limb in limbs):
        raise refused(path, entry, "skeleton", limbs, f"pairs of points, numbered from 1 to {len(PERSON)}")
    return tuple(names), tuple((first - 1, second - 1) for first, second in limbs)


def _is_limb(limb: Any, numbers: range) -> bool:
    return isinstance(limb, list) and len(limb) == 2 and all(type(end) is int and end in numbers for end in limb)
