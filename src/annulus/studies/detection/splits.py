"""A data set's training and test pictures, from the folders in which it is distributed."""

from collections import Counter
from pathlib import Path

from annulus.errors import InputError
from annulus.studies.detection.annotated import Annotated
from annulus.studies.detection.coco import read_coco
from annulus.studies.detection.faults import counted
from annulus.studies.detection.lvis import read_lvis
from annulus.studies.detection.voc import VOC_SPLITS, read_voc


def read_splits(root: Path, kind: str, drop_empty: bool) -> tuple[Annotated, Annotated]:
    """Reads the training and the test pictures.

    `boxes`, `masks` and `keypoints` are COCO 2017, `lvis` is LVIS v1, all with annotations/ and train2017/ and val2017/
    under the root; `voc` is VOC2007, trained on trainval and tested on test.

    Raises:
        InputError: for files that the readers refuse, splits of different categories or without objects, and a picture
            that stands twice.
    """
    train, val = (_read(root, kind, split, drop_empty) for split in ("train", "val"))
    check_categories(train, val, root)
    check_pictures(train, val, root)
    return train, val


def annotation_files(root: Path, kind: str) -> list[Path]:
    """The files, or folders of files, that `read_splits` reads beside the pictures."""
    if kind == "voc":
        return [root / "ImageSets" / "Main", root / "Annotations"]
    return [_records(root, kind, split) for split in ("train", "val")]


def check_categories(train: Annotated, val: Annotated, root: Path) -> None:
    """Both splits have the same categories under the same ids.

    Raises:
        InputError: naming those that differ.
    """
    sides = [{(category.id, category.name) for category in split.categories} for split in (train, val)]
    differ = sorted(sides[0] ^ sides[1])
    if differ:
        shown = ", ".join(
            f"{id} {name!r} in {'train' if (id, name) in sides[0] else 'val'} only" for id, name in differ[:4]
        )
        raise InputError(
            f"{root}: {len(differ)} categories differ between the splits ({shown}); give both the same categories"
        )


def check_pictures(train: Annotated, val: Annotated, root: Path) -> None:
    """Both splits have objects, and no picture's file is in both, or in one of them twice.

    Raises:
        InputError: counting and naming the files.
    """
    files = {}
    for split, pictures in (("train", train.pictures), ("val", val.pictures)):
        if not any(picture.instances for picture in pictures):
            raise InputError(f"{root}: no picture of {split} has an object; annotate some, or name another root")
        counts = Counter(picture.file.resolve() for picture in pictures)
        if twice := [file for file, often in counts.items() if often > 1]:
            raise InputError(f"{root}: {split} lists {counted(twice, 'image')} more than once; keep one entry of each")
        files[split] = counts.keys()
    if both := sorted(files["train"] & files["val"]):
        raise InputError(
            f"{root}: {counted(both, 'image')} of train are in val too, which tests what was trained on; take them out "
            "of one"
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
    """The JSON file of a split in the form of COCO or LVIS."""
    stem = {"lvis": "lvis_v1", "keypoints": "person_keypoints"}.get(kind, "instances")
    return root / "annotations" / f"{stem}_{split}{'' if kind == 'lvis' else '2017'}.json"
