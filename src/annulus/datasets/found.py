"""Names, classes and splits of the images that `photos` found at a path, and their reading from folders."""

import logging
import os
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from annulus.datasets.decode import is_image
from annulus.datasets.folder import composed, entries, is_folder, named
from annulus.datasets.settings import Classes
from annulus.errors import InputError

log = logging.getLogger("annulus")

SPLIT_OF = dict.fromkeys(("train", "training"), "train") | dict.fromkeys(("test", "testing", "holdout"), "test")
SPLIT_OF |= dict.fromkeys(("val", "valid", "validation", "dev", "eval", "evaluation"), "validation")
WITHOUT_CLASS = "unlabelled"  # a folder of this name gives its images no class


@dataclass(frozen=True)
class Found:
    """Images of a path: files under `root` in natural order, and of each its class and its split, where known.

    `others` are the files that are no images.
    """

    kind: str
    root: Path
    names: tuple[str, ...]
    classes: tuple[str | None, ...]
    splits: tuple[str | None, ...]
    others: tuple[str, ...] = ()

    @property
    def divided(self) -> bool:
        """True where the path says which images are for training and which are not."""
        return {"train"} < {split for split in self.splits if split is not None}

    def check_splits(self) -> None:
        """Refuse splits of which one part alone is known: drawn anew, images marked test would be trained on.

        Raises:
            InputError: with the number of images of each.
        """
        counts = Counter(self.splits)
        if self.divided or len(counts) < 2:
            return
        there = ", ".join(f"{often} are of {f'split {name}' if name else 'no split'}" for name, often in counts.items())
        lack = "test or val" if "train" in counts else "train"
        raise InputError(
            f"of the images {there}, and none is {lack}; mark the others so, by the table's column, the shards' names "
            "or the saved splits, or mark none, and a test part is drawn"
        )


def of_tree(root: Path, by: Classes) -> Found:
    """The images below a folder, by the folders that they are in."""
    names, others = listed(root)
    return arranged(root, names, names, others, by)


def listed(root: Path) -> tuple[list[str], list[str]]:
    """The images below a folder, and its other files."""
    names, others, split_folders = [], [], []
    for place, kind in _walked(root):
        {"image": names, "file": others, "folder": split_folders}[kind].append(place)
    empty = [place for place in split_folders if not any(name.startswith(f"{place}/") for name in names)]
    if empty:
        log.warning("WARNING: %s: folders of a split without an image: %s", root, named(empty))
    return names, others


def split_of(name: str) -> str | None:
    """train of train-00000-of-00002.parquet and of train2017."""
    return SPLIT_OF.get(re.split(r"[-_.0-9]", name.lower())[0])


def arranged(root: Path, files: Sequence[str], names: Sequence[str], others: Sequence[str], by: Classes) -> Found:
    """Image files below `root`, whose classes and splits their names in the user's own folder, or archives, say."""
    while True:
        folders = {name.partition("/")[0] for name in names if "/" in name}
        split_folders = {name: SPLIT_OF[name.lower()] for name in folders if name.lower() in SPLIT_OF}
        divided = {"train"} < set(split_folders.values())
        outer = folders - {WITHOUT_CLASS}
        if divided or len(outer) != 1 or not all("/" in name for name in names):
            break
        # As an archive has it: one folder around all, or around those that have a class.
        names = [name.removeprefix(f"{min(outer)}/") for name in names]
    if divided:
        known = {*split_folders, WITHOUT_CLASS}
        used = [place for place, name in enumerate(names) if name.partition("/")[0] in known]
        if unused := sorted({*names} - {names[place] for place in used}):
            log.warning(
                "WARNING: %s: %d images beside %s are left out: %s",
                *(root, len(unused), ", ".join(sorted(split_folders)), named(unused)),
            )
        tops, insides = zip(*(names[place].split("/", 1) for place in used), strict=True)
        splits = [split_folders.get(top, "train") for top in tops]
        classes = [
            None if top == WITHOUT_CLASS else _class_of(inside, by) for top, inside in zip(tops, insides, strict=True)
        ]
        kind = "train and test folders" if any(classes) else "train and test folders without classes"
        return Found(kind, root, tuple(files[place] for place in used), tuple(classes), tuple(splits), tuple(others))
    if splits := sorted(name for name in folders if split_of(name)):
        log.warning(
            "WARNING: %s: %s taken as a class; only train/ with test/ or val/ beside it says which images are to test",
            *(root, ", ".join(splits)),
        )
    classes = [_class_of(name, by) for name in names]
    kind = "class folders" if len({*classes} - {None}) > 1 else "a folder of images"
    return Found(kind, root, tuple(files), tuple(classes), (None,) * len(names), tuple(others))


def _class_of(name: str, by: Classes) -> str | None:
    *folders, _ = name.split("/")
    if by == "none" or not folders or folders[0] == WITHOUT_CLASS:
        return None
    return composed(folders[0] if by == "top" else "/".join(folders))


def _walked(root: Path) -> Iterator[tuple[str, str]]:
    """Each file below a folder, links followed, and whether it is an image; and each folder that has a split's name."""
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
        if entry.name.lower() in SPLIT_OF:
            yield place, "folder"
        around.append(real)
        opened.append((f"{place}/", iter(entries(root / place))))
