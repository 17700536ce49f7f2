"""Reads the training and test pictures of a data set from its folders."""

from collections import Counter
from pathlib import Path

from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import Annotated
from annulus_lab.studies.detection.coco import read_coco
from annulus_lab.studies.detection.faults import ids_text
from annulus_lab.studies.detection.lvis import read_lvis
from annulus_lab.studies.detection.voc import VOC_SPLITS, read_voc


def read_splits(root: Path, kind: str, drop_empty: bool) -> tuple[Annotated, Annotated]:
    """Reads the training and the test pictures.

    `boxes`, `masks` and `keypoints` are COCO 2017 and `lvis` is LVIS v1, with annotations/, train2017/ and val2017/
    under the root. `voc` is VOC2007, with trainval for training and test for testing.

    Raises:
        InputError: when a reader refuses a file, the splits differ in categories, a split has no object, or a picture
            occurs twice.
    """
    train, val = (_read(root, kind, split, drop_empty) for split in ("train", "val"))
    check_categories(train, val, root)
    check_pictures(train, val, root)
    return train, val


def annotation_files(root: Path, kind: str) -> list[Path]:
    """Files and folders that `read_splits` reads beside the pictures."""
    if kind == "voc":
        return [root / "ImageSets" / "Main", root / "Annotations"]
    return [_records(root, kind, split) for split in ("train", "val")]


def check_categories(train: Annotated, val: Annotated, root: Path) -> None:
    """Checks that both splits have the same categories under the same ids.

    Raises:
        InputError: when they differ, with the first differences.
    """
    sides = [{(category.id, category.name) for category in split.categories} for split in (train, val)]
    differ = sorted(sides[0] ^ sides[1])
    if differ:
        examples = ", ".join(
            f"{id} {name!r} in {'train' if (id, name) in sides[0] else 'val'} only" for id, name in differ[:4]
        )
        raise InputError(
            f"{root}: {len(differ)} categories differ between the splits ({examples}); give both the same categories"
        )


def check_pictures(train: Annotated, val: Annotated, root: Path) -> None:
    """Checks that both splits have objects, and that no file occurs in both or twice in one.

    Raises:
        InputError: when a check fails, with number and names of the files.
    """
    files = {}
    for split, pictures in (("train", train.pictures), ("val", val.pictures)):
        if not any(picture.instances for picture in pictures):
            raise InputError(f"{root}: no picture of {split} has an object; annotate some, or name another root")
        counts = Counter(picture.file.resolve() for picture in pictures)
        if twice := [file for file, often in counts.items() if often > 1]:
            raise InputError(f"{root}: {split} lists {ids_text(twice, 'image')} more than once; keep one entry of each")
        files[split] = counts.keys()
    if both := sorted(files["train"] & files["val"]):
        raise InputError(
            f"{root}: {ids_text(both, 'image')} of train are in val too, so the test would "
            "see training images; remove them from one"
        )


def _read(root: Path, kind: str, split: str, drop_empty: bool) -> Annotated:
    match kind:
        case "voc":
            return read_voc(root, VOC_SPLITS[split], drop_empty)
        case "lvis":
            return read_lvis(_records(root, kind, split), root, drop_empty)
        case _:
            return read_coco(_records(root, kind, split), root / f"{split}2017", kind, drop_empty)


def _records(root: Path, kind: str, split: str) -> Path:
    """JSON file of a split in the form of COCO or LVIS."""
    stem = {"lvis": "lvis_v1", "keypoints": "person_keypoints"}.get(kind, "instances")
    return root / "annotations" / f"{stem}_{split}{'' if kind == 'lvis' else '2017'}.json"
