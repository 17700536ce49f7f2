"""LVIS v1: masks of a thousand categories, annotated as a federation of small data sets.

Of each image some categories are annotated fully, some are known to be absent (`negative`), some are annotated in part
(`not_exhaustive`), and of all others nothing is known.

Source: Gupta et al. 2019, "LVIS: a dataset for large vocabulary instance segmentation", CVPR.
"""

from pathlib import Path

from annulus.errors import InputError
from annulus.studies.detection.annotated import Annotated, Category, Picture
from annulus.studies.detection.faults import refused
from annulus.studies.detection.image_files import check_files
from annulus.studies.detection.objects import instances_of
from annulus.studies.detection.records import Record, read_records, sizes_of

FREQUENCIES = ("r", "c", "f")  # in 1 to 10, in 11 to 100, and in more training images


def read_lvis(annotations: Path, root: Path, drop_empty: bool) -> Annotated:
    """A split: the file with its annotations, and the folder in which train2017/ and val2017/ hold the images.

    Raises:
        InputError: when the two cannot be trained on, before anything is trained.
    """
    content = read_records(annotations)
    if not all("neg_category_ids" in image for image in content["images"]):
        raise InputError(
            f"{annotations} is no file of LVIS (images without neg_category_ids); read a COCO file as kind masks"
        )
    for record in content["categories"]:
        if record.get("frequency") not in FREQUENCIES:
            expected = f"one of {', '.join(FREQUENCIES)}, as in LVIS v1"
            raise refused(annotations, f"category {record['id']}", "frequency", record.get("frequency"), expected)
    categories = tuple(Category(record["id"], record["name"], record["frequency"]) for record in content["categories"])
    ids, sizes = {category.id for category in categories}, sizes_of(content["images"])
    files = {image["id"]: _file(annotations, root, image) for image in content["images"]}
    known = {
        image["id"]: [_listed(annotations, image, f"{key}_category_ids", ids) for key in ("neg", "not_exhaustive")]
        for image in content["images"]
    }
    check_files(annotations, files, sizes)
    of_images = instances_of(annotations, content["annotations"], sizes, True, False, drop_empty)
    pictures = tuple(
        Picture(number, files[number], *size, of_images[number], *known[number]) for number, size in sizes.items()
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
    """The file by the end of its address: images of val2017 are in LVIS's train split too."""
    address = image.get("coco_url")
    parts = address.split("/") if isinstance(address, str) else []
    if len(parts) < 2:
        expected = "an address that ends in FOLDER/FILE, as in LVIS v1"
        raise refused(annotations, f"image {image['id']}", "coco_url", address, expected)
    return root / parts[-2] / parts[-1]


def _listed(annotations: Path, image: Record, key: str, ids: set[int]) -> tuple[int, ...]:
    """The categories that an image lists under a key, none where it lacks the key."""
    listed = image.get(key, [])
    if not isinstance(listed, list) or not all(type(number) is int and number in ids for number in listed):
        raise refused(annotations, f"image {image['id']}", key, listed, "a list of ids of categories")
    return tuple(listed)
