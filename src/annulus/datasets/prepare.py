"""Prepares a data set: from its settings to its train, validation and test images."""

import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from annulus.datasets.aside import aside
from annulus.datasets.folder import UNLABELLED_FOLDER, join_names, open_folder, with_unlabelled
from annulus.datasets.generated import counts, generated
from annulus.datasets.imagenet import open_imagenet, open_tinyimagenet
from annulus.datasets.masks import open_masks
from annulus.datasets.pack import pack, workplace
from annulus.datasets.parts import DatasetParts
from annulus.datasets.photos import find, open_photos
from annulus.datasets.settings import (
    DatasetSettings,
    DownloadSettings,
    FilesSettings,
    FolderSettings,
    MasksSettings,
    PhotosSettings,
    PrepareBudget,
)
from annulus.datasets.source import FileList, Source, resolve_root
from annulus.device.memory_check import check_space
from annulus.device.rng import generator
from annulus.errors import InputError
from annulus.files.images import IGNORED, UNLABELLED, ImageSet
from annulus.files.store import Resident, Store
from annulus.files.subset import even_subset, held_out

log = logging.getLogger(__name__)

Limits = Mapping[str, int | None]  # images of a split, and images without a class; None: all

FOLDERS = {"folder": open_folder, "imagenet": open_imagenet, "tinyimagenet": open_tinyimagenet}


def packing(dataset: str, params: DatasetSettings) -> AbstractContextManager[Path | None]:
    """Context with a folder for the shards of a packed set; None for a set in memory.

    Raises:
        InputError: on entering, if another process packs the same set.
    """
    if isinstance(params, FilesSettings) and params.store != "memory":
        key = {
            "root": resolve_root(f"datasets.{dataset}.root", params.root),
            "image_size": params.image_size,
            "store": params.store,
        }
        return workplace({"dataset": dataset, **key})
    return nullcontext()


def prepare_images(
    dataset: str, params: DatasetSettings, scale: PrepareBudget, seed: int, shards: Path | None = None
) -> DatasetParts:
    """Reads, limits and divides a data set. The same arguments and files give the same images.

    `shards` is the folder of `packing`: a set there is packed, and memory holds only a few images at a time.

    Raises:
        InputError: if the set is missing, malformed, or has more unreadable files than its limit; if a limit is below
            the number of classes.
    """
    limits = {"train": scale.train_images, "test": scale.test_images, "unlabelled": scale.unlabelled_images}
    if isinstance(params, PhotosSettings):
        return _photos(dataset, params, limits, seed, shards)
    sources = _open(dataset, params, limits, seed)
    if limits["unlabelled"] and not (sources["train"].labels == UNLABELLED).any():
        raise InputError(
            f"unlabelled_images is {limits['unlabelled']}, and {dataset} has none here; put them below ROOT/"
            f"{UNLABELLED_FOLDER} of dataset: folder, take dataset: stl10, or leave unlabelled_images out"
        )
    return prepare_sources(sources, limits, params, seed, shards, f"datasets.{dataset}")


def prepare_sources(
    sources: dict[str, Source], limits: Limits, params: DatasetSettings, seed: int, shards: Path | None, section: str
) -> DatasetParts:
    """`prepare_images` of open sources; error sentences name `section`, the section of the settings."""
    limited_by = _limited_by(section)
    chosen = {split: chosen_rows(source, limits, split, seed, limited_by) for split, source in sources.items()}
    for split, rows in chosen.items():
        if len(rows) < len(sources[split].labels):
            log.info(
                "%s: %s of %s images are taken; %s limits them (null: all)",
                *(split, f"{len(rows):,}", f"{len(sources[split].labels):,}", limited_by),
            )
    read: dict[str, Store] = {}
    bad = {}
    if shards is None:
        files = any(source.files is not None for source in sources.values())
        _check_space({split: len(rows) for split, rows in chosen.items()}, params, section, files)
    for split, source in sources.items():
        if shards is None:
            pixels, bad[split] = source.read(chosen[split])
            read[split] = Resident(pixels)
        else:
            packed = pack(source.files, chosen[split], params.store, params.image_size, shards, split)
            read[split], bad[split] = packed[0], source.files.describe(chosen[split], packed[1])
    if shards is not None:
        log.info("all files are packed; the statistics of the pixels read each once more")
    count = sum(len(rows) for rows in chosen.values())
    _check_bad_files([name for names in bad.values() for name in names.values()], count, section, params)

    sets = {}
    for split in chosen:
        source = sources.pop(split)  # frees it: for a million images it takes a hundred megabytes
        good = torch.ones(len(chosen[split]), dtype=torch.bool)
        good[list(bad[split])] = False
        rows, images = chosen[split][good], read.pop(split)
        if bad[split]:
            images = images.some(good.nonzero().squeeze(1))
        masks = None if source.read_masks is None else source.read_masks(rows)
        sets[split] = ImageSet(images, source.labels[rows], rows, source.classes, masks)
        unread = [(name, int(source.labels[chosen[split][place]])) for place, name in bad[split].items()]
        _check_every_class(sets[split], split, unread)
    _check_pixel_classes(sets["train"], sets["test"])

    bad_files = sum(len(names) for names in bad.values())
    if "validation" in sets:
        return DatasetParts(sets["train"], sets["validation"], sets["test"], bad_files)
    cut = torch.zeros(len(sets["train"]), dtype=torch.bool)
    known = sets["train"].with_class
    if len(known):  # validation measures an accuracy
        validated = held_out(sets["train"].labels[known], params.validation_fraction, generator(seed, "validation"))
        cut[known[validated]] = True
    validation = sets["train"].take(cut)
    return DatasetParts(sets.pop("train").take(~cut), validation, sets["test"], bad_files)


def _photos(dataset: str, params: PhotosSettings, limits: Limits, seed: int, shards: Path | None) -> DatasetParts:
    """The parts of a path's images, with the files of each part if the split was drawn."""
    root = resolve_root(f"datasets.{dataset}.root", params.root)
    with aside() as unpacked:
        try:
            listing = find(root, unpacked, params.classes)
        except InputError as error:
            raise InputError(f"datasets.{dataset}.root: {error}") from error
        sources = open_photos(listing, params.image_size, params.test_fraction, seed)
        files = {part: source.files for part, source in sources.items()}
        prepared = prepare_sources(sources, limits, params, seed, shards, f"datasets.{dataset}")
    parts = {part: getattr(prepared, part) for part in ("train", "validation", "test")}
    names = {part: _names(files, part, images) for part, images in parts.items()}
    return replace(prepared, names=names, drawn=not listing.divided)


def _names(files: Mapping[str, FileList], part: str, images: ImageSet) -> list[str]:
    file_list = files.get(part, files["train"])  # validation images are rows of the training files
    return [os.path.relpath(path, file_list.root) for path in file_list.some(images.rows)]


def _open(dataset: str, params: DatasetSettings, limits: Limits, seed: int) -> dict[str, Source]:
    match params:
        case FolderSettings(root=root):
            place = resolve_root(f"datasets.{dataset}.root", root)
            sources = FOLDERS[dataset](place, params.image_size)
            if dataset == "folder" and limits["unlabelled"] != 0:
                sources["train"] = with_unlabelled(sources["train"], place, params.image_size)
            return sources
        case DownloadSettings(root=root):
            from annulus.datasets.downloads import open_download  # here, since torchvision takes four seconds

            return open_download(
                dataset, resolve_root(f"datasets.{dataset}.root", root), params.image_size, limits["unlabelled"] != 0
            )
        case MasksSettings(root=root):
            return open_masks(dataset, resolve_root(f"datasets.{dataset}.root", root), params.image_size)
        case _:
            there = counts(dataset, limits)
            _check_space(there, params, f"datasets.{dataset}", files=False)  # even the labels may be too many
            return {split: generated(dataset, split, params.image_size, count, seed) for split, count in there.items()}


def _limited_by(section: str) -> str:
    """The section that limits the numbers of images: a scale's, or a study's."""
    return "scales.SCALE.prepare" if section.startswith("datasets.") else section


def _check_space(images: Mapping[str, int], params: DatasetSettings, section: str, files: bool) -> None:
    size = params.image_size
    # Twice: once as read, once as divided.
    needs = {f"{split} images ({count:,} of {size} px)": 2 * count * 3 * size**2 for split, count in images.items()}
    way_out = f"lower the numbers of images in {_limited_by(section)}"
    if section.startswith("datasets."):
        way_out += f", or {section}.image_size"
    if files and isinstance(params, FilesSettings):
        way_out += f", or give {section}.store jpeg or raw"
    check_space(needs, torch.device("cpu"), way_out)


def chosen_rows(source: Source, limits: Limits, split: str, seed: int, limited_by: str) -> Int64[Tensor, " k"]:
    """Draws rows of a split: rows with a class up to the split's limit, then rows without a class up to theirs."""
    missing = source.labels == UNLABELLED
    if not source.classes:
        return (
            torch.randperm(len(missing), generator=generator(seed, "subset", split))[: limits.get(split)].sort().values
        )
    labelled, unlabelled = (~missing).nonzero().squeeze(1), missing.nonzero().squeeze(1)
    chosen = labelled[_even_rows(source.labels[labelled], source.classes, limits.get(split), split, seed, limited_by)]
    limit = limits.get("unlabelled")
    if limit is not None and 0 < len(unlabelled) < limit:
        log.info("unlabelled_images is %d and there are %d; taking all", limit, len(unlabelled))
    drawn = torch.randperm(len(unlabelled), generator=generator(seed, "subset", "unlabelled"))[:limit].sort().values
    return torch.cat([chosen, unlabelled[drawn]])


def _even_rows(
    labels: Int64[Tensor, " n"], classes: Sequence[str], limit: int | None, split: str, seed: int, limited_by: str
) -> Int64[Tensor, " k"]:
    there = len(labels)
    if limit is not None and limit < len(classes):
        raise InputError(
            f"{split}_images {limit} is fewer than the {len(classes)} classes; "
            f"raise it in {limited_by}, or give null for all images"
        )
    if limit is not None and limit > there:
        log.info("%s_images is %d and there are %d; taking all", split, limit, there)
    if limit is None or limit >= there:
        return torch.arange(there)
    return even_subset(labels, limit, generator(seed, "subset", split))


def _check_bad_files(names: Sequence[str], count: int, section: str, params: DatasetSettings) -> None:
    if not names:
        return
    fault = f"{len(names)} of {count} image files cannot be read: {join_names(names)}"
    if isinstance(params, PhotosSettings) and len(names) < count:
        log.warning("WARNING: %s; they are left out", fault)
        return
    if not isinstance(params, FolderSettings):
        raise InputError(f"{fault}; fix or remove them")
    allowed = params.max_bad_files
    if len(names) > allowed:
        raise InputError(f"{fault}. max_bad_files is {allowed}: fix or remove them, or raise {section}.max_bad_files")
    log.warning("%s; going on without (max_bad_files %d)", fault, allowed)


def _check_every_class(image_set: ImageSet, split: str, unread: Sequence[tuple[str, int]]) -> None:
    """Raises InputError unless every class, or a split without classes, has an image. `unread`: bad files, labels."""
    if len(image_set) == 0 and not image_set.classes and split != "validation":
        raise InputError(
            f"no {split} image can be read: {join_names([name for name, _ in unread])}; repair or remove them"
        )
    counts = torch.bincount(image_set.labels[image_set.with_class], minlength=len(image_set.classes))
    lost = [name for name, count in zip(image_set.classes, counts.tolist(), strict=True) if count == 0]
    if lost:
        files = [name for name, label in unread if label != UNLABELLED and image_set.classes[label] in lost]
        advice = (
            f", and {join_names(files)} cannot be read: repair or remove them" if files else ", or remove its folders"
        )
        raise InputError(f"no {split} image can be used of {join_names(lost)}; every class needs one{advice}")


def _check_pixel_classes(train: ImageSet, test: ImageSet) -> None:
    if train.masks is None:
        return
    train_classes, test_classes = (set(part.masks.unique().tolist()) - {IGNORED} for part in (train, test))
    if unknown := sorted(test_classes - train_classes):
        raise InputError(
            f"no train image has a pixel of {join_names([f'class {number}' for number in unknown])}, and test images "
            "have; give both splits images of them, or mark them 255 (ignored)"
        )
