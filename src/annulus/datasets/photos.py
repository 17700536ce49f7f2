"""`photos`: anyone's own images as they lie. What a path holds is recognised: folders, a table, an archive, shards."""

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64
from torch import Tensor

from annulus.datasets import tables, unpack
from annulus.datasets.folder import named, natural, of_files
from annulus.datasets.found import Found, of_tree
from annulus.datasets.settings import Classes
from annulus.datasets.source import Files, Source, encoded
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.files.images import UNLABELLED
from annulus.files.subset import first_of_each

log = logging.getLogger("annulus")

EXPECTED = (
    "a folder of images, class folders, train/ with test/ or val/, a .csv, .tsv or .parquet table, a .zip or .tar, a "
    "folder of .tar or .parquet shards, or what `datasets` saved by save_to_disk"
)


def find(path: Path, unpacked: Path, classes: Classes = "top") -> Found:
    """The images of a path, listed but not read. Archives and shards are written as files below `unpacked`.

    `classes` says which folder is an image's class: the first below the path, as torchvision's ImageFolder has it, the
    one that holds the image, or none.

    Raises:
        InputError: when the path does not exist or holds no images, or a package that reads it is missing.
    """
    try:
        there = path.exists()
    except OSError as error:  # a name that is too long
        raise InputError(f"{str(path)[:80]} cannot be opened: {error.strerror}; give {EXPECTED}") from error
    if not there:
        raise InputError(f"{path} does not exist; give {EXPECTED}")
    suffix = next((end for end in unpack.SUFFIXES if path.name.lower().endswith(end)), path.suffix.lower())
    if path.is_dir() and unpack.is_saved_to_disk(path):
        found = unpack.from_datasets(path, unpacked)
    elif path.is_dir():
        found = of_tree(path, classes)
        if not found.names and (shards := unpack.shards_of(path)):
            found = unpack.from_shards(shards, unpacked, classes)
    elif suffix in (".csv", ".tsv"):
        found = tables.from_text(path, "\t" if suffix == ".tsv" else ",")
    elif suffix in unpack.SUFFIXES:
        found = unpack.from_shards([path], unpacked, classes)
    else:
        raise InputError(f"{path} is a file of another kind; give {EXPECTED}")
    if found.others:
        log.warning("WARNING: %s: no images, left out (%d): %s", path, len(found.others), named(found.others))
    if not found.names:
        raise InputError(f"{path} holds no images; give {EXPECTED}")
    found = _ordered(found)
    known = {name for name in found.classes if name is not None}
    if classes == "none" or len(known) < 2:
        if len(known) == 1 and classes != "none":
            log.info(
                "%s has one class, %s, which tells nothing apart: the images count as without a class", path, *known
            )
        found = replace(found, classes=(None,) * len(found.names))
    return found


def open_photos(found: Found, image_size: int, test_fraction: float, seed: int) -> dict[str, Source]:
    """Train and test, and validation where the path has all three.

    Without splits of its own, `test_fraction` of each class, drawn by the seed, is the test part: one image at least.

    Raises:
        InputError: when a class has one image alone, a class's name cannot be shown, or the splits are known in part.
    """
    found.check_splits()
    known = sorted({name for name in found.classes if name is not None}, key=natural)
    for name in known:
        if not name.isprintable() or len(name) > 200:
            raise InputError(f"the class {name[:80]!a} has a name that no table can show; rename it, up to 200 letters")
    number = {None: UNLABELLED} | {name: label for label, name in enumerate(known)}
    labels = torch.tensor([number[name] for name in found.classes])
    split = np.array([name or "" for name in found.splits])
    if not found.divided:
        split = np.full(len(labels), "train", dtype="<U10")
        split[_tested(labels, known, test_fraction, seed).numpy()] = "test"
    elif "" in split:
        log.warning("WARNING: %d images are of no split and are left out", (split == "").sum())
    without = (labels == UNLABELLED).numpy() & (split != "train") & bool(known)
    if without.any():
        log.warning("WARNING: %d test images have no class and are left out", without.sum())
        split[without] = ""
    if "test" not in split:
        split[split == "validation"] = "test"
    rows = {part: np.flatnonzero(split == part) for part in ("train", "validation", "test") if part in split}
    _check_classes({part: labels[some] for part, some in rows.items()}, known)
    return {part: _source(found, labels, some, known, image_size, part) for part, some in rows.items()}


def _check_classes(labels: Mapping[str, Int64[Tensor, " _"]], classes: Sequence[str]) -> None:
    if "test" not in labels:
        raise InputError(
            "no test image has a class; put the test images into class folders, move them into unlabelled/ to train on "
            "them, or set datasets.photos.classes: none"
        )
    for part, some in labels.items():
        if lost := sorted(set(range(len(classes))) - set(some.tolist())):
            names = named([classes[label] for label in lost])
            raise InputError(f"no {part} image is of {names}; every class needs one: add some, or take the class away")


def _tested(labels: Int64[Tensor, " n"], classes: Sequence[str], fraction: float, seed: int) -> Int64[Tensor, " k"]:
    """Test rows: a share of each class, at least one and never all; where no image has a class, of all."""
    if not classes:
        if len(labels) < 2:
            raise InputError("one image alone can be read; give two or more, to train and to test")
        labels = torch.zeros_like(labels)
    order = torch.randperm(len(labels), generator=generator(seed, "test images"))
    order = order[labels[order] != UNLABELLED]
    sizes = torch.bincount(labels[order])
    if alone := [classes[label] for label in (sizes < 2).nonzero().squeeze(1).tolist()]:
        raise InputError(
            f"one image alone is there of {named(alone)}; each class needs two, to train and to test: add some, take "
            "it away, or set datasets.photos.classes: none"
        )
    counts = (fraction * sizes.double()).round().long().clamp(min=1)
    return first_of_each(labels, order, torch.minimum(counts, sizes - 1))


def _source(
    found: Found, labels: Int64[Tensor, " n"], rows: np.ndarray, classes: Sequence[str], image_size: int, part: str
) -> Source:
    places: dict[str, int] = {}
    names, of_folder = [], []
    for row in rows:
        folder, name = os.path.split(found.names[row])
        of_folder.append(places.setdefault(folder, len(places)))
        names.append(name)
    files = Files(found.root, list(places), torch.tensor(of_folder, dtype=torch.int64), encoded(names))
    return of_files(classes, labels[rows], files, image_size, part)


def _ordered(found: Found) -> Found:
    order = sorted(range(len(found.names)), key=lambda row: natural(found.names[row]))
    names, classes, splits = (
        tuple(values[row] for row in order) for values in (found.names, found.classes, found.splits)
    )
    return replace(found, names=names, classes=classes, splits=splits)
