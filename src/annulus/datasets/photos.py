"""`photos`: your own images in any common layout: folders, a table, an archive, or shards."""

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
from annulus.datasets.folder import files_source, join_names, natural
from annulus.datasets.listing import ImageListing, list_tree
from annulus.datasets.settings import Classes
from annulus.datasets.source import FileList, Source, encoded
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.files.images import UNLABELLED
from annulus.files.subset import first_by_class

log = logging.getLogger("annulus")

EXPECTED = (
    "a folder of images, class folders, train/ with test/ or val/, a .csv, .tsv or .parquet table, a .zip or .tar, a "
    "folder of .tar or .parquet shards, or a folder of save_to_disk of `datasets`"
)


def find(path: Path, unpacked: Path, classes: Classes = "top") -> ImageListing:
    """Lists the images of a path, without reading them. Archives and shards are unpacked below `unpacked`.

    `classes` is the folder that names an image's class: the first below the path ("top", as torchvision's ImageFolder),
    the folder of the image ("innermost"), or "none".

    Raises:
        InputError: if the path does not exist or holds no images, or a package that reads it is missing.
    """
    try:
        there, is_folder = path.exists(), path.is_dir()
        saved = is_folder and unpack.is_saved_to_disk(path)
    except OSError as error:  # a name that is too long, or a folder that may not be entered
        raise InputError(f"{str(path)[:80]} cannot be opened: {error.strerror}; give {EXPECTED}") from error
    if not there:
        raise InputError(f"{path} does not exist; give {EXPECTED}")
    suffix = next((end for end in unpack.SUFFIXES if path.name.lower().endswith(end)), path.suffix.lower())
    if saved:
        listing = unpack.from_datasets(path, unpacked)
    elif is_folder:
        listing, shards = list_tree(path, classes), unpack.list_shards(path)
        # A repository of shards may have a few preview pictures, and a folder of images a table of their paths.
        if shards and not (listing.names and unpack.count_images(shards) <= len(listing.names)):
            if listing.names:
                log.warning(
                    "WARNING: %s: images beside the shards, left out (%d): %s",
                    *(path, len(listing.names), join_names(listing.names)),
                )
            listing = unpack.from_shards(shards, unpacked, classes)
    elif suffix in (".csv", ".tsv"):
        listing = tables.from_text(path, "\t" if suffix == ".tsv" else ",")
    elif suffix in unpack.SUFFIXES:
        listing = unpack.from_shards([path], unpacked, classes)
    else:
        raise InputError(f"{path} is a file of another kind; give {EXPECTED}")
    if listing.others:
        log.warning("WARNING: %s: no images, left out (%d): %s", path, len(listing.others), join_names(listing.others))
    if not listing.names:
        raise InputError(f"{path} holds no images; give {EXPECTED}")
    listing = _ordered(listing)
    known = {name for name in listing.classes if name is not None}
    if classes == "none" or len(known) < 2:
        if len(known) == 1 and classes != "none":
            log.info("%s has one class, %s, and needs two: the images count as images without a class", path, *known)
        listing = replace(listing, classes=(None,) * len(listing.names))
    return listing


def open_photos(listing: ImageListing, image_size: int, test_fraction: float, seed: int) -> dict[str, Source]:
    """Sources of train and test, and of validation if the path has all three.

    If the path has no splits, the seed draws the test part: `test_fraction` of each class, one image at least.

    Raises:
        InputError: if a class has only one image, a class name is not printable, or only a part of the splits is known.
    """
    listing.check_splits()
    known = sorted({name for name in listing.classes if name is not None}, key=natural)
    for name in known:
        if not name.isprintable() or len(name) > 200:
            raise InputError(f"the class name {name[:80]!a} is not printable or too long; rename it, up to 200 letters")
    number = {None: UNLABELLED} | {name: label for label, name in enumerate(known)}
    labels = torch.tensor([number[name] for name in listing.classes])
    split = np.array([name or "" for name in listing.splits])
    if not listing.divided:
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
    return {part: _source(listing, labels, some, known, image_size, part) for part, some in rows.items()}


def _check_classes(labels: Mapping[str, Int64[Tensor, " _"]], classes: Sequence[str]) -> None:
    if "test" not in labels:
        raise InputError(
            "no test image has a class; put the test images into class folders, move them into unlabelled/ to train on "
            "them, or set datasets.photos.classes: none"
        )
    for part, some in labels.items():
        if lost := sorted(set(range(len(classes))) - set(some.tolist())):
            names = join_names([classes[label] for label in lost])
            raise InputError(f"no {part} image is of {names}; every class needs one: add some, or remove the class")


def _tested(labels: Int64[Tensor, " n"], classes: Sequence[str], fraction: float, seed: int) -> Int64[Tensor, " k"]:
    """Draws test rows: a share of each class, at least one and never all. Without classes, a share of all rows."""
    if not classes:
        if len(labels) < 2:
            raise InputError("only one image can be read; give two or more, to train and to test")
        labels = torch.zeros_like(labels)
    order = torch.randperm(len(labels), generator=generator(seed, "test images"))
    order = order[labels[order] != UNLABELLED]
    sizes = torch.bincount(labels[order])
    if alone := [classes[label] for label in (sizes < 2).nonzero().squeeze(1).tolist()]:
        raise InputError(
            f"there is only one image of {join_names(alone)}; each class needs two, to train and to test: add some, "
            "remove it, or set datasets.photos.classes: none"
        )
    counts = (fraction * sizes.double()).round().long().clamp(min=1)
    return first_by_class(labels, order, torch.minimum(counts, sizes - 1))


def _source(
    listing: ImageListing,
    labels: Int64[Tensor, " n"],
    rows: np.ndarray,
    classes: Sequence[str],
    image_size: int,
    part: str,
) -> Source:
    places: dict[str, int] = {}
    names, folder_numbers = [], []
    for row in rows:
        folder, name = os.path.split(listing.names[row])
        folder_numbers.append(places.setdefault(folder, len(places)))
        names.append(name)
    files = FileList(listing.root, list(places), torch.tensor(folder_numbers, dtype=torch.int64), encoded(names))
    return files_source(classes, labels[rows], files, image_size, part)


def _ordered(listing: ImageListing) -> ImageListing:
    order = sorted(range(len(listing.names)), key=lambda row: natural(listing.names[row]))
    names, classes, splits = (
        tuple(values[row] for row in order) for values in (listing.names, listing.classes, listing.splits)
    )
    return replace(listing, names=names, classes=classes, splits=splits)
