"""`folder`: anyone's own images: root/train/CLASS/*, root/test/CLASS/*, and without a class below root/unlabelled."""

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
from annulus.datasets.source import Files, Source, encoded
from annulus.errors import InputError
from annulus.files.images import UNLABELLED

log = logging.getLogger(__name__)

# What file managers and archives leave behind. These and hidden names (.DS_Store, ._cat.jpg) are not images.
SIDE_FILES = {"thumbs.db", "ehthumbs.db", "desktop.ini", "icon\r", "__macosx"}
LAYOUT = "train/CLASS/* and test/CLASS/*"
UNLABELLED_FOLDER = "unlabelled"
READ_FOLDERS = ("train", "test", UNLABELLED_FOLDER)


def open_folder(root: Path, image_size: int) -> dict[str, Source]:
    """Both splits, listed but not read.

    Raises:
        InputError: when the root is missing or not laid out as above, has one class only, or a class has no file in
            a split.
    """
    for folder in (root, root / "train", root / "test"):
        if (fault := _no_folder(folder)) is not None:
            raise InputError(
                f"datasets.folder.root: {folder} {fault}; {root} needs {LAYOUT}. "
                "Put images there, name another root in params.yaml, or take `dataset: photos`, which needs no splits"
            )
    unused = [entry.name for entry in entries(root) if is_folder(entry) and entry.name not in READ_FOLDERS]
    if unused:
        log.info("%s: folders that are not used: %s (%s are)", root, named(unused), ", ".join(READ_FOLDERS))
    sources = {split: listed(root, split, image_size) for split in ("train", "test")}
    _check_classes(sources["train"].classes, sources["test"].classes, root)
    return sources


def with_unlabelled(train: Source, root: Path, image_size: int) -> Source:
    """The training images, followed by those of root/unlabelled, if it exists, folder after folder.

    Raises:
        InputError: when root/unlabelled is not a folder, one in it cannot be listed, or a link leads back to a folder
            around it.
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
    files = Files(root, folders, torch.cat([train.files.folder_of, places]), np.concatenate([train.files.names, names]))
    return of_files(
        train.classes, torch.cat([train.labels, torch.full_like(places, UNLABELLED)]), files, image_size, "train"
    )


def _below(start: Path) -> Iterator[tuple[Path, list[str]]]:
    """Each folder with the names of its files, links followed."""
    waiting: list[tuple[Path, tuple[str, ...]]] = [(start, ())]
    while waiting:
        folder, around = waiting.pop()
        inner = (*around, os.path.realpath(folder))
        if inner[-1] in around:
            raise InputError(f"{folder} is a link to a folder around it; remove the link")
        inside = {entry.name: is_folder(entry) for entry in entries(folder)}
        yield folder, images_of(folder, [name for name, is_folder in inside.items() if not is_folder])
        waiting += [(folder / name, inner) for name, is_folder in reversed(inside.items()) if is_folder]


def natural(name: str) -> tuple[list[str | tuple[int, str]], str]:
    """Sort key that puts img2 before img10 and is otherwise by code points, so the same in every locale.

    é is one letter, whether a file system stores it as one code point or two.
    """
    # Split at digits, text and numbers alternate, so that like is compared with like.
    parts: list[str | tuple[int, str]] = list(re.split(r"([0-9]+)", composed(name)))
    # By length and then by letters as by number, of which Python reads no more than 4,300 digits.
    parts[1::2] = [(len(number), number) for number in (digits.lstrip("0") for digits in parts[1::2])]
    return parts, name


def composed(name: str) -> str:
    """A name in composed form: macOS stores é as e and an accent, which is the same name."""
    return unicodedata.normalize("NFC", name)


def images_of(folder: Path, names: Sequence[str]) -> list[str]:
    """Those of a folder's files that are images; a log line names the others."""
    images = [name for name in names if is_image(folder / name)]
    if len(images) < len(names):
        others = [name for name in names if name not in set(images)]
        log.info("%s: no images, not used (%d): %s", folder, len(others), named(others))
    return images


def _no_folder(path: Path) -> str | None:
    """Fault of a path that should be a folder, or None."""
    try:
        return None if stat.S_ISDIR(path.stat().st_mode) else "is not a folder"
    except FileNotFoundError:
        return "does not exist"
    except OSError as error:
        return f"cannot be opened ({error.strerror})"


def is_folder(entry: os.DirEntry[str]) -> bool:
    """Returns True if an entry is a folder or a link to one. A broken link is a file that cannot be read."""
    try:
        return entry.is_dir()
    except OSError:  # a loop of links, or a target behind a folder that may not be entered
        return False


def of_files(classes: Sequence[str], labels: Int64[Tensor, " n"], files: Files, image_size: int, split: str) -> Source:
    """A split whose images are files."""

    def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
        some = files.some(rows)
        images, bad = decode_files(some, image_size, f"{split} images")
        return images, files.described(rows, bad)

    return Source(tuple(classes), labels, read, files)


def listed(root: Path, split: str, image_size: int) -> Source:
    """The images of root/SPLIT/CLASS/*, class after class in natural order; a file's position is its row number.

    Raises:
        InputError: when a class has no image, or the folder holds anything else.
    """
    folder = root / split
    there = entries(folder)
    loose = [entry.name for entry in there if not is_folder(entry)]
    for name in loose:
        if Path(name).suffix.lower() in SUFFIXES:
            raise InputError(f"{folder / name} lies in no class folder; move it to {folder}/CLASS/, or away")
    if loose:
        log.info("%s: %d files beside the class folders are not used", folder, len(loose))
    folders = [entry.name for entry in there if is_folder(entry)]
    classes = list(dict.fromkeys(composed(name) for name in folders))
    names: list[np.ndarray] = []
    of_folder: list[int] = []
    for number, name in enumerate(folders):
        if not name.isprintable():
            raise InputError(
                f"the class folder {name!a} of {folder} has a name that no table can show; rename it to "
                "printable characters in UTF-8"
            )
        inside = entries(folder / name)
        for entry in inside:
            if is_folder(entry):
                raise InputError(
                    f"{folder / name / entry.name} is a folder; images lie directly in their class folder "
                    f"({LAYOUT}). Move its images up, or the folder away"
                )
        images = images_of(folder / name, [entry.name for entry in inside])
        if not images:
            raise InputError(f"{folder / name} has no images; every class needs some, or remove the folder")
        names.append(encoded(images))
        of_folder += [number] * len(images)
    places = torch.tensor(of_folder, dtype=torch.int64)
    number_of = {name: number for number, name in enumerate(classes)}
    labels = torch.tensor([number_of[composed(name)] for name in folders], dtype=torch.int64)[places]
    files = Files(root, [f"{split}/{name}" for name in folders], places, np.concatenate(names or [encoded([])]))
    return of_files(classes, labels, files, image_size, split)


def entries(folder: Path) -> list[os.DirEntry[str]]:
    """Entries of a folder in natural order, without hidden and side files."""
    try:
        with os.scandir(folder) as listing:
            listed = list(listing)
    except OSError as error:
        raise InputError(f"{folder} cannot be listed: {error.strerror}; fix its permissions") from error
    seen = [entry for entry in listed if not entry.name.startswith(".") and entry.name.lower() not in SIDE_FILES]
    if len(seen) < len(listed):
        log.info("%s: hidden and side files, not used: %d", folder, len(listed) - len(seen))
    return sorted(seen, key=lambda entry: natural(entry.name))


def _check_classes(train: Sequence[str], test: Sequence[str], root: Path) -> None:
    for split, classes in (("train", train), ("test", test)):
        if not classes:
            raise InputError(f"{root / split} has no class folders; {root} needs {LAYOUT}")
    if set(train) != set(test):
        extras = {"train": sorted(set(train) - set(test)), "test": sorted(set(test) - set(train))}
        sides = [f"only in {split}: {named(names)}" for split, names in extras.items() if names]
        raise InputError(
            f"the class folders of {root}/train and {root}/test differ ({'; '.join(sides)}); give both the same folders"
        )
    if len(train) == 1:
        raise InputError(f"{root} has one class, {train[0]}; at least two are needed to tell apart")


def named(names: Sequence[str]) -> str:
    """Up to ten names, then the number of further ones."""
    more = f" and {len(names) - 10} more" if len(names) > 10 else ""
    return ", ".join(map(shown_name, names[:10])) + more


def shown_name(name: str) -> str:
    """The name; one that would break a line is quoted with its escapes."""
    return name if name.isprintable() else ascii(name)
