"""`imagenet` (ILSVRC 2012) and `tinyimagenet`: the official archives, which the user downloads and unpacks.

Row numbers follow the classes, and in a class the names. The test split is the archives' validation part.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from annulus.datasets.folder import entries, files_source, is_aside, is_folder, list_split
from annulus.datasets.source import FileList, Source, encoded
from annulus.errors import InputError
from annulus.files.regular import read_text

DEVKIT = Path("ILSVRC2012_devkit_t12", "data")
TRUTH = DEVKIT / "ILSVRC2012_validation_ground_truth.txt"
NUMBERS = DEVKIT / "meta.mat"
IMAGENET = (
    "get ILSVRC2012_img_train.tar, ILSVRC2012_img_val.tar and ILSVRC2012_devkit_t12.tar.gz from https://image-net.org "
    "(it asks for a login and its terms) and unpack them as train/nXXXXXXXX/*.JPEG, val/*.JPEG and "
    "ILSVRC2012_devkit_t12/data/ (data/README.md has the commands)"
)
TINY = (
    "get https://cs231n.stanford.edu/tiny-imagenet-200.zip (ImageNet's terms hold) and unpack it: the folder holds "
    "train/nXXXXXXXX/images/*.JPEG, val/images/*.JPEG and val/val_annotations.txt"
)


def open_imagenet(root: Path, image_size: int) -> dict[str, Source]:
    """Lists train/CLASS/*, and val/CLASS/* or val/* with the development kit's labels.

    Raises:
        InputError: if a part is missing, with its source.
    """
    _check_there(root, ["train", "val"], "imagenet", IMAGENET)
    train = list_split(root, "train", image_size)
    if any(is_folder(entry) for entry in entries(root / "val")):
        test = list_split(root, "val", image_size)
        if test.classes != train.classes:
            raise InputError(f"{root}: the class folders of train and val differ; {IMAGENET}")
        return {"train": train, "test": test}
    return {"train": train, "test": _split(root, "val", _truth(root), train.classes, image_size, IMAGENET)}


def open_tinyimagenet(root: Path, image_size: int) -> dict[str, Source]:
    """Lists train/CLASS/images/*, and val/images/* with val_annotations.txt.

    Raises:
        InputError: if a part is missing, with its source.
    """
    _check_there(root, ["train", "val/images", "val/val_annotations.txt"], "tinyimagenet", TINY)
    classes = tuple(sorted(entry.name for entry in entries(root / "train") if is_folder(entry)))
    folders = [f"train/{name}/images" for name in classes]
    names: list[str] = []
    folder_labels: list[int] = []
    for label, folder in enumerate(folders):
        inside = _jpegs(root / folder)
        if not inside:
            raise InputError(f"{root / folder} has no images; {TINY}")
        names += inside
        folder_labels += [label] * len(inside)
    labels = torch.tensor(folder_labels, dtype=torch.int64)
    train = files_source(classes, labels, FileList(root, folders, labels, encoded(names)), image_size, "train")
    # A line: name, class, and the object's box.
    lines = [line.split("\t") for line in _text(root / "val/val_annotations.txt", TINY).splitlines()]
    truth = {line[0]: line[1] for line in lines if len(line) > 1}
    return {"train": train, "test": _split(root, "val/images", truth, classes, image_size, TINY)}


def _split(
    root: Path, folder: str, truth: Mapping[str, str], classes: Sequence[str], image_size: int, way_out: str
) -> Source:
    """Source of the images of one folder; `truth` maps their names to classes."""
    names = _jpegs(root / folder)
    number = {name: label for label, name in enumerate(classes)}
    lost = [name for name in names if truth.get(name) not in number]
    if lost or not names:
        fault = f"{lost[0]} has no label" if lost else "there are no images"
        raise InputError(f"{root / folder}: {fault}; {way_out}")
    names.sort(key=lambda name: number[truth[name]])
    labels = torch.tensor([number[truth[name]] for name in names], dtype=torch.int64)
    return files_source(
        classes, labels, FileList(root, [folder], torch.zeros_like(labels), encoded(names)), image_size, "test"
    )


def _truth(root: Path) -> dict[str, str]:
    """Classes of the validation images by name, from the numbers in the development kit."""
    from scipy.io import loadmat  # here, since it takes half a second

    numbers = _text(root / TRUTH, IMAGENET).split()
    try:
        synsets = loadmat(root / NUMBERS, squeeze_me=True)["synsets"]
        pairs = zip(synsets["ILSVRC2012_ID"], synsets["WNID"], strict=True)
        wnids = {str(int(number)): str(wnid) for number, wnid in pairs}
    except Exception as error:  # on broken bytes scipy's reader raises about anything
        raise InputError(f"{root / NUMBERS} is missing or is not the kit's ({error}); {IMAGENET}") from error
    names = _jpegs(root / "val")
    if len(numbers) != len(names):
        raise InputError(f"{root}: {len(numbers)} labels in {TRUTH}, but {len(names)} images in val; {IMAGENET}")
    # ILSVRC2012_val_00000001.JPEG has the first label.
    image_numbers = {name: int((re.findall(r"\d+", name) or [0])[-1]) for name in names}
    labels = dict(enumerate(numbers, start=1))
    return {name: wnids.get(labels.get(number, ""), "") for name, number in image_numbers.items()}


def _jpegs(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("*.JPEG") if not is_aside(path.name))


def _check_there(root: Path, parts: Sequence[str], dataset: str, way_out: str) -> None:
    for part in parts:
        if not (root / part).exists():
            raise InputError(f"datasets.{dataset}.root: {root / part} does not exist; {way_out}")


def _text(path: Path, way_out: str) -> str:
    try:
        return read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({error}); {way_out}") from error
