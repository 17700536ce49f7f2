"""Reader of LVIS v1: masks of a thousand categories, annotated as a federation of small data sets.

In each image some categories are annotated fully and some in part (`not_exhaustive`). Some are known to be absent
(`negative`), and the others are unknown.

Source: Gupta et al. 2019, "LVIS: a dataset for large vocabulary instance segmentation", CVPR.
"""

from pathlib import Path

from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import Annotated, Category, Picture
from annulus_lab.studies.detection.faults import refused
from annulus_lab.studies.detection.image_files import check_files
from annulus_lab.studies.detection.objects import read_instances
from annulus_lab.studies.detection.records import Record, image_sizes, read_records

FREQUENCIES = ("r", "c", "f")  # in 1 to 10, in 11 to 100, and in more training images


def read_lvis(annotations: Path, root: Path, drop_empty: bool) -> Annotated:
    """Reads a split from its annotation file and the folder whose train2017/ and val2017/ hold the images.

    Raises:
        InputError: when the annotations or the images have a fault, before any training.
    """
    content = read_records(annotations)
    if not all("neg_category_ids" in image for image in content["images"]):
        raise InputError(
            f"{annotations} is not a file of LVIS (images without neg_category_ids); read a COCO file as kind masks"
        )
    for record in content["categories"]:
        if record.get("frequency") not in FREQUENCIES:
            expected = f"one of {', '.join(FREQUENCIES)}, as in LVIS v1"
            raise refused(annotations, f"category {record['id']}", "frequency", record.get("frequency"), expected)
    categories = tuple(Category(record["id"], record["name"], record["frequency"]) for record in content["categories"])
    ids, sizes = {category.id for category in categories}, image_sizes(content["images"])
    files = {image["id"]: _file(annotations, root, image) for image in content["images"]}
    known = {
        image["id"]: [_listed(annotations, image, f"{key}_category_ids", ids) for key in ("neg", "not_exhaustive")]
        for image in content["images"]
    }
    check_files(annotations, files, sizes)
    by_image = read_instances(annotations, content["annotations"], sizes, True, False, drop_empty)
    for number, (negative, _) in known.items():
        if both := sorted({instance.category for instance in by_image[number]} & {*negative}):
            expected = f"categories without an annotation (image {number} has some of {both[0]})"
            raise refused(annotations, f"image {number}", "neg_category_ids", list(negative), expected)
    pictures = tuple(
        Picture(number, files[number], *size, by_image[number], *known[number]) for number, size in sizes.items()
    )
    return Annotated(
        kind="lvis",
        pictures=pictures,
        categories=categories,
        skeleton=None,
        keypoint_names=None,
        flip_pairs=None,
    )


def _file(annotations: Path, root: Path, image: Record) -> Path:
    """File of an image, from the end of its address: LVIS's train split also has images of val2017."""
    address = image.get("coco_url")
    parts = address.split("/") if isinstance(address, str) else []
    if len(parts) < 2:
        expected = "an address that ends in FOLDER/FILE, as in LVIS v1"
        raise refused(annotations, f"image {image['id']}", "coco_url", address, expected)
    return root / parts[-2] / parts[-1]


def _listed(annotations: Path, image: Record, key: str, ids: set[int]) -> tuple[int, ...]:
    """Categories that an image lists under a key; empty without the key."""
    listed = image.get(key, [])
    if not isinstance(listed, list) or not all(type(number) is int and number in ids for number in listed):
        raise refused(annotations, f"image {image['id']}", key, listed, "a list of ids of categories")
    return tuple(listed)
