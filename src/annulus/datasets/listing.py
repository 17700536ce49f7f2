"""`ImageListing`: names, classes and splits of the images of a path, for `photos`; and the listing of folders."""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from annulus.datasets.decode import is_image
from annulus.datasets.folder import composed, entries, is_folder, join_names
from annulus.datasets.settings import Classes
from annulus.errors import InputError

log = logging.getLogger("annulus")

SPLIT_NAMES = dict.fromkeys(("train", "training"), "train") | dict.fromkeys(("test", "testing", "holdout"), "test")
SPLIT_NAMES |= dict.fromkeys(("val", "valid", "validation", "dev", "eval", "evaluation"), "validation")
WITHOUT_CLASS = "unlabelled"  # folder of images without a class


@dataclass(frozen=True)
class ImageListing:
    """Images of a path: files under `root` in natural order, with class and split of each; None if unknown.

    `others` are the files that are not images.
    """

    kind: str
    root: Path
    names: tuple[str, ...]
    classes: tuple[str | None, ...]
    splits: tuple[str | None, ...]
    others: tuple[str, ...] = ()

    @property
    def divided(self) -> bool:
        """True if the path divides the images into training images and others."""
        return {"train"} < {split for split in self.splits if split is not None}

    def check_splits(self) -> None:
        """Raises InputError if only one part is known: a random split would train on images marked test.

        Raises:
            InputError: with the number of images of each split.
        """
        counts = Counter(self.splits)
        if self.divided or len(counts) < 2:
            return
        there = ", ".join(f"{often} are of {f'split {name}' if name else 'no split'}" for name, often in counts.items())
        lack = "test or val" if "train" in counts else "train"
        raise InputError(
            f"of the images {there}, and none is {lack}; mark the others as {lack} by the table's column, the shards' "
            "names or the saved splits, or mark none, and a test part is drawn"
        )


def list_tree(root: Path, by: Classes) -> ImageListing:
    """Lists the images below a folder, with classes and splits by their folders."""
    names, others = list_files(root)
    return arrange(root, names, names, others, by)


def list_files(root: Path) -> tuple[list[str], list[str]]:
    """Lists the images below a folder, and the other files."""
    names, others, split_folders = [], [], []
    for place, kind in _walked(root):
        {"image": names, "file": others, "folder": split_folders}[kind].append(place)
    holding: set[str] = set()  # folders with an image below them
    for name in names:
        while (name := name.rpartition("/")[0]) and name not in holding:
            holding.add(name)
    empty = [place for place in split_folders if place not in holding]
    if empty:
        log.warning("WARNING: %s: folders of a split without an image: %s", root, join_names(empty))
    return names, others


def split_from_name(name: str) -> str | None:
    """The split that a file name begins with: train for train-00000-of-00002.parquet and train2017; else None."""
    return SPLIT_NAMES.get(re.split(r"[-_.0-9]", name.lower())[0])


def arrange(root: Path, files: Sequence[str], names: Sequence[str], others: Sequence[str], by: Classes) -> ImageListing:
    """Lists image files below `root`, with classes and splits by `names`, their paths in the user's data."""
    while True:
        folders = {name.partition("/")[0] for name in names if "/" in name}
        split_folders = {name: SPLIT_NAMES[name.lower()] for name in folders if name.lower() in SPLIT_NAMES}
        divided = {"train"} < set(split_folders.values())
        outer = folders - {WITHOUT_CLASS}
        if divided or len(outer) != 1 or not all("/" in name for name in names):
            break
        # An archive may have one folder around all images, or around all images with a class.
        names = [name.removeprefix(f"{min(outer)}/") for name in names]
    if divided:
        known = {*split_folders, WITHOUT_CLASS}
        inside_splits = [place for place, name in enumerate(names) if name.partition("/")[0] in known]
        if unused := sorted({*names} - {names[place] for place in inside_splits}):
            log.warning(
                "WARNING: %s: %d images beside %s are left out: %s",
                *(root, len(unused), ", ".join(sorted(split_folders)), join_names(unused)),
            )
        tops, insides = zip(*(names[place].split("/", 1) for place in inside_splits), strict=True)
        splits = [split_folders.get(top, "train") for top in tops]
        classes = [
            None if top == WITHOUT_CLASS else _class_name(inside, by) for top, inside in zip(tops, insides, strict=True)
        ]
        kind = "train and test folders" if any(classes) else "train and test folders without classes"
        images = tuple(files[place] for place in inside_splits)
        return ImageListing(kind, root, images, tuple(classes), tuple(splits), tuple(others))
    if splits := sorted(name for name in folders if split_from_name(name)):
        log.warning(
            "WARNING: %s: %s taken as a class; only train/ with test/ or val/ beside it divides the images",
            *(root, ", ".join(splits)),
        )
    classes = [_class_name(name, by) for name in names]
    kind = "class folders" if len({*classes} - {None}) > 1 else "a folder of images"
    return ImageListing(kind, root, tuple(files), tuple(classes), (None,) * len(names), tuple(others))


def _class_name(name: str, by: Classes) -> str | None:
    *folders, _ = name.split("/")
    if by == "none" or not folders or folders[0] == WITHOUT_CLASS:
        return None
    return composed(folders[0] if by == "top" else "/".join(folders))


def _walked(root: Path) -> Iterator[tuple[str, str]]:
    """Yields files below a folder as "image" or "file", and folders with a split's name as "folder"; follows links."""
    around, opened = [os.path.realpath(root)], [("", iter(entries(root)))]
    while opened:
        prefix, inside = opened[-1]
        if (entry := next(inside, None)) is None:
            around.pop()
            opened.pop()
            continue
        place = prefix + entry.name
        if not is_folder(entry):
            yield place, "image" if is_image(root / place) else "file"
            continue
        if (real := os.path.realpath(root / place)) in around:
            raise InputError(f"{root / place} is a link to a folder around it; remove the link")
        if entry.name.lower() in SPLIT_NAMES:
            yield place, "folder"
        around.append(real)
        opened.append((f"{place}/", iter(entries(root / place))))
