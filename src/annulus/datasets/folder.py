"""`folder`: your own images in root/train/CLASS/*, root/test/CLASS/*, and images without a class in root/unlabelled."""

import logging
import os
import re
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.datasets.decode import SUFFIXES, decode_files, is_image
from annulus.datasets.source import FileList, Source, encoded
from annulus.errors import InputError
from annulus.files.images import UNLABELLED

log = logging.getLogger(__name__)

# Files and folders that systems, file servers and archives add, in lower case. Hidden names (.DS_Store) are aside too.
SIDE_NAMES = {
    "thumbs.db",
    "ehthumbs.db",
    "ehthumbs_vista.db",
    "desktop.ini",
    "icon\r",
    "picasa.ini",
    "zbthumbnail.info",
}
SIDE_NAMES |= {"__macosx", "temporary items", "network trash folder", "thevolumesettingsfolder"}  # macOS
SIDE_NAMES |= {"$recycle.bin", "recycler", "system volume information", "msdownld.tmp"}  # Windows
SIDE_NAMES |= {
    "@eadir",
    "@tmp",
    "@sharebin",
    "@recycle",
    "@recently-snapshot",
    "#recycle",
    "#snapshot",
    "trashbox",
}  # NAS
SIDE_NAMES |= {"lost+found", "lost.dir", "_gsdata_"}  # Linux, Android, GoodSync
FOUND = re.compile(r"found\.\d{3}")  # folders of Windows' chkdsk
MOST_NAMED = 10  # names in a sentence
LAYOUT = "train/CLASS/* and test/CLASS/*"
UNLABELLED_FOLDER = "unlabelled"
READ_FOLDERS = ("train", "test", UNLABELLED_FOLDER)


def open_folder(root: Path, image_size: int) -> dict[str, Source]:
    """Lists both splits, without reading the images.

    Raises:
        InputError: if the root is missing or has another layout, there is only one class, or a class has no file in a
            split.
    """
    for folder in (root, root / "train", root / "test"):
        if (fault := _no_folder(folder)) is not None:
            raise InputError(
                f"datasets.folder.root: {folder} {fault}; {root} needs {LAYOUT}. "
                "Put images there, name another root in params.yaml, or take another dataset: `photos` needs no "
                "splits, `cifar10` is downloaded"
            )
    unused = [entry.name for entry in entries(root) if is_folder(entry) and entry.name not in READ_FOLDERS]
    if unused:
        log.info("%s: folders that are not used: %s (%s are)", root, join_names(unused), ", ".join(READ_FOLDERS))
    sources = {split: list_split(root, split, image_size) for split in ("train", "test")}
    _check_classes(sources["train"].classes, sources["test"].classes, root)
    return sources


def with_unlabelled(train: Source, root: Path, image_size: int) -> Source:
    """Appends the images of root/unlabelled to the training images, folder after folder, if it exists.

    Raises:
        InputError: if root/unlabelled is not a folder, a folder in it cannot be listed, or a link leads back to a
            folder around it.
    """
    start = root / UNLABELLED_FOLDER
    if not os.path.lexists(start):
        return train
    if (fault := _no_folder(start)) is not None:
        raise InputError(f"{start} {fault}; put images without a class into a folder there, or remove it")
    below = list(_below(start))
    folders = [*train.files.folders, *(str(folder.relative_to(root)) for folder, _ in below)]
    lengths = torch.tensor([len(names) for _, names in below], dtype=torch.int64)
    places = torch.arange(len(below)).repeat_interleave(lengths) + len(train.files.folders)
    names = encoded([name for _, inside in below for name in inside])
    if not len(names):
        log.info("%s holds no images", start)
        return train
    files = FileList(
        root, folders, torch.cat([train.files.folder_index, places]), np.concatenate([train.files.names, names])
    )
    return files_source(
        train.classes, torch.cat([train.labels, torch.full_like(places, UNLABELLED)]), files, image_size, "train"
    )


def _below(start: Path) -> Iterator[tuple[Path, list[str]]]:
    """Yields each folder with the names of its images, following links."""
    waiting: list[tuple[Path, tuple[str, ...]]] = [(start, ())]
    while waiting:
        folder, around = waiting.pop()
        inner = (*around, os.path.realpath(folder))
        if inner[-1] in around:
            raise InputError(f"{folder} is a link to a folder around it; remove the link")
        inside = {entry.name: is_folder(entry) for entry in entries(folder)}
        yield folder, select_images(folder, [name for name, is_folder in inside.items() if not is_folder])
        waiting += [(folder / name, inner) for name, is_folder in reversed(inside.items()) if is_folder]


def natural(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """Sort key that puts img2 before img10. Otherwise it orders by code points, the same in every locale.

    é is one letter, although some file systems store it as two code points.
    """
    # Split at digits, so texts and numbers alternate and are compared among themselves.
    parts: list[str | tuple[int, str]] = list(re.split(r"([0-9]+)", composed(name)))
    # The order by length and then by digits equals the order by number; Python parses at most 4,300 digits.
    parts[1::2] = [(len(number), number) for number in (digits.lstrip("0") for digits in parts[1::2])]
    return parts, name


def composed(name: str) -> str:
    """A name in composed form, since macOS stores é as e and an accent."""
    return unicodedata.normalize("NFC", name)


def is_aside(name: str) -> bool:
    """Returns True for the name of a hidden file or folder, and for one that a system, file server or archive adds."""
    return name.startswith(".") or name.lower() in SIDE_NAMES or FOUND.fullmatch(name.lower()) is not None


def select_images(folder: Path, names: Sequence[str]) -> list[str]:
    """Selects the images among a folder's files; a log line lists the other files."""
    images, others = [], []
    for name in names:
        (images if is_image(folder / name) else others).append(name)
    if others:
        log.info("%s: no images, not used (%d): %s", folder, len(others), join_names(others))
    return images


def _no_folder(path: Path) -> str | None:
    """Reason why a path is not a readable folder, or None."""
    try:
        return None if stat.S_ISDIR(path.stat().st_mode) else "is not a folder"
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be opened ({error.strerror})"


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Returns True if an entry is a folder or a link to one. A broken link counts as a file."""
    try:
        return entry.is_dir()
    except OSError:  # a loop of links, or a target behind a folder that may not be entered
        return False


def files_source(
    classes: Sequence[str], labels: Int64[Tensor, " n"], files: FileList, image_size: int, split: str
) -> Source:
    """Source of a split whose images are files."""

    def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
        some = files.some(rows)
        images, bad = decode_files(some, image_size, f"{split} images")
        return images, files.describe(rows, bad)

    return Source(tuple(classes), labels, read, files)


def list_split(root: Path, split: str, image_size: int) -> Source:
    """Lists the images of root/SPLIT/CLASS/*, class after class in natural order; a file's position is its row number.

    Raises:
        InputError: if a class has no image, or the folder has another layout.
    """
    folder = root / split
    there = entries(folder)
    loose = [entry.name for entry in there if not is_folder(entry)]
    for name in loose:
        if Path(name).suffix.lower() in SUFFIXES:
            raise InputError(f"{folder / name} is not in a class folder; move it to {folder}/CLASS/, or away")
    if loose:
        log.info("%s: %d files beside the class folders are not used", folder, len(loose))
    folders = [entry.name for entry in there if is_folder(entry)]
    classes = list(dict.fromkeys(composed(name) for name in folders))
    names: list[np.ndarray] = []
    folder_numbers: list[int] = []
    for number, name in enumerate(folders):
        if not name.isprintable():
            raise InputError(
                f"the name of the class folder {name!a} in {folder} is not printable; rename it to printable "
                "characters in UTF-8"
            )
        inside = entries(folder / name)
        for entry in inside:
            if is_folder(entry):
                raise InputError(
                    f"{folder / name / entry.name} is a folder; images lie directly in their class folder "
                    f"({LAYOUT}). Move its images up, or the folder away"
                )
        images = select_images(folder / name, [entry.name for entry in inside])
        if not images:
            raise InputError(f"{folder / name} has no images; every class needs some, or remove the folder")
        names.append(encoded(images))
        folder_numbers += [number] * len(images)
    places = torch.tensor(folder_numbers, dtype=torch.int64)
    class_numbers = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([class_numbers[composed(name)] for name in folders], dtype=torch.int64)[places]
    files = FileList(root, [f"{split}/{name}" for name in folders], places, np.concatenate(names or [encoded([])]))
    return files_source(classes, labels, files, image_size, split)


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder in natural order, without hidden and side files."""
    try:
        with os.scandir(folder) as listing:
            all_entries = list(listing)
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}; fix its permissions") from error
    visible = [entry for entry in all_entries if not is_aside(entry.name)]
    if len(visible) < len(all_entries):
        log.info("%s: hidden and side files, not used: %d", folder, len(all_entries) - len(visible))
    return sorted(visible, key=lambda entry: natural(entry.name))


def _check_classes(train: Sequence[str], test: Sequence[str], root: Path) -> None:
    for split, classes in (("train", train), ("test", test)):
        if not classes:
            raise InputError(f"{root / split} has no class folders; {root} needs {LAYOUT}")
    if set(train) != set(test):
        extras = {"train": sorted(set(train) - set(test)), "test": sorted(set(test) - set(train))}
        sides = [f"only in {split}: {join_names(names)}" for split, names in extras.items() if names]
        raise InputError(
            f"the class folders of {root}/train and {root}/test differ ({'; '.join(sides)}); give both the same folders"
        )
    if len(train) == 1:
        raise InputError(f"{root} has one class, {train[0]}; give at least two")


def join_names(names: Sequence[str], count: int | None = None, between: str = ", ") -> str:
    """Joins up to ten names, and appends the number of further names. `count`: all names, if `names` are the first."""
    count = len(names) if count is None else count
    more = f" and {count - MOST_NAMED} more" if count > MOST_NAMED else ""
    return between.join(map(printable, names[:MOST_NAMED])) + more


def printable(name: str) -> str:
    """The name; if it is not printable, quoted with escapes."""
    return name if name.isprintable() else ascii(name)
