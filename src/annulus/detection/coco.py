"""COCO: boxes, masks, and the keypoints of persons.

The format: https://cocodataset.org/#format-data.

Source: Lin et al. 2014, "Microsoft COCO: common objects in context", ECCV.
"""

from pathlib import Path

from annulus.detection.annotated import Annotated, Category, Picture, flip_pairs_of
from annulus.detection.image_files import check_files
from annulus.detection.records import instances_of, read_records, well_formed
from annulus.errors import InputError


@well_formed
def read_coco(annotations: Path, images: Path, kind: str, drop_empty: bool) -> Annotated:
    """A split: the file with its annotations, and the folder with its images. `kind`: boxes, masks or keypoints.

    Keypoints are numbers of pixels, counted from 0: the middle of a pixel lies half a pixel further.

    Raises:
        InputError: when the two cannot be trained on, before anything is trained.
    """
    content = read_records(annotations)
    if any("neg_category_ids" in image for image in content["images"]):
        raise InputError(
            f"{annotations} is a file of LVIS (it lists neg_category_ids), not of COCO; read it as kind lvis"
        )
    of_images = instances_of(annotations, content["annotations"], kind == "masks", kind == "keypoints", drop_empty)
    pictures = tuple(
        Picture(
            id=image["id"],
            file=images / image["file_name"],
            width=image["width"],
            height=image["height"],
            instances=tuple(of_images.get(image["id"], ())),
            negative=(),
            not_exhaustive=(),
        )
        for image in sorted(content["images"], key=lambda image: image["id"])
    )
    check_files(annotations, pictures)
    records = sorted(content["categories"], key=lambda category: category["id"])
    names = skeleton = None
    if kind == "keypoints":
        names, skeleton = _person(annotations, records)
    return Annotated(
        kind=kind,
        pictures=pictures,
        categories=tuple(Category(record["id"], record["name"], None) for record in records),
        skeleton=skeleton,
        keypoint_names=names,
        flip_pairs=None if names is None else flip_pairs_of(names),
    )


def _person(path: Path, categories: list[dict]) -> tuple[tuple[str, ...], tuple[tuple[int, int], ...]]:
    """The names of the keypoints, and the limbs, which the file counts from 1."""
    if len(categories) != 1 or "keypoints" not in categories[0]:
        raise InputError(
            f"{path} has {len(categories)} categories, of which {sum('keypoints' in c for c in categories)} have "
            "keypoints; expected the one category person, as in person_keypoints_val2017.json"
        )
    limbs = tuple((first - 1, second - 1) for first, second in categories[0].get("skeleton", ()))
    return tuple(categories[0]["keypoints"]), limbs
