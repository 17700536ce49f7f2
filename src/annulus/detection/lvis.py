"""LVIS v1: masks of a thousand categories, annotated as a federation of small data sets.

Of each image some categories are annotated fully, some are known to be absent (`negative`), some are annotated in part
(`not_exhaustive`), and of all others nothing is known.

Source: Gupta et al. 2019, "LVIS: a dataset for large vocabulary instance segmentation", CVPR.
"""

from pathlib import Path
from typing import Any

from annulus.detection.annotated import Annotated, Category, Picture
from annulus.detection.image_files import check_files
from annulus.detection.records import instances_of, read_records, well_formed
from annulus.errors import InputError

FREQUENCIES = ("r", "c", "f")  # in 1 to 10, in 11 to 100, and in more training images


@well_formed
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
            raise InputError(
                f"{annotations}: category {record['id']} has the frequency {record.get('frequency')!r}; "
                f"expected one of {', '.join(FREQUENCIES)}, as in LVIS v1"
            )
    of_images = instances_of(annotations, content["annotations"], masks=True, points=False, drop_empty=drop_empty)
    pictures = tuple(
        Picture(
            id=image["id"],
            file=_file(annotations, root, image),
            width=image["width"],
            height=image["height"],
            instances=tuple(of_images.get(image["id"], ())),
            negative=tuple(image["neg_category_ids"]),
            not_exhaustive=tuple(image.get("not_exhaustive_category_ids", ())),
        )
        for image in sorted(content["images"], key=lambda image: image["id"])
    )
    check_files(annotations, pictures)
    return Annotated(
        kind="lvis",
        pictures=pictures,
        categories=tuple(
            Category(record["id"], record["name"], record["frequency"])
            for record in sorted(content["categories"], key=lambda record: record["id"])
        ),
        skeleton=None,
        keypoint_names=None,
        flip_pairs=None,
    )


def _file(annotations: Path, root: Path, image: dict[str, Any]) -> Path:
    """The file by the end of its address: images of val2017 are in LVIS's train split too."""
    parts = str(image.get("coco_url", "")).split("/")
    if len(parts) < 2:
        raise InputError(
            f"{annotations}: image {image['id']} has the coco_url {image.get('coco_url')!r}; expected an address "
            "that ends in FOLDER/FILE, as in LVIS v1"
        )
    return root / parts[-2] / parts[-1]
