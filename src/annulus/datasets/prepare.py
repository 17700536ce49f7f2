"""From a data set's parameters to its train, validation and test images."""

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
from annulus.datasets.folder import UNLABELLED_FOLDER, named, open_folder, with_unlabelled
from annulus.datasets.generated import counts, generated
from annulus.datasets.imagenet import open_imagenet, open_tinyimagenet
from annulus.datasets.masks import open_masks
from annulus.datasets.pack import pack, workplace
from annulus.datasets.parts import Prepared
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
from annulus.datasets.source import Files, Source, root_of
from annulus.device.rng import generator
from annulus.device.space import check_space
from annulus.errors import InputError
from annulus.files.images import IGNORED, UNLABELLED, ImageSet
from annulus.files.store import Resident, Store
from annulus.files.subset import even_subset, held_out

log = logging.getLogger(__name__)

Limits = Mapping[str, int | None]  # images of a split, and of those without a class; None: all

FOLDERS = {"folder": open_folder, "imagenet": open_imagenet, "tinyimagenet": open_tinyimagenet}


def packing(dataset: str, params: DatasetSettings) -> AbstractContextManager[Path | None]:
    """A folder for the shards of a set that is packed, until they are saved; None for a set in memory.

    Raises:
        InputError: on entering, when another process packs the same set.
    """
    if isinstance(params, FilesSettings) and params.store != "memory":
        key = {
            "root": root_of(f"datasets.{dataset}.root", params.root),
            "image_size": params.image_size,
            "store": params.store,
        }
        return workplace({"dataset": dataset, **key})
    return nullcontext()


def prepare_images(
    dataset: str, params: DatasetSettings, scale: PrepareBudget, seed: int, shards: Path | None = None
) -> Prepared:
    """Read, limit and divide a data set. The same arguments and files give the same images.

    `shards` is what `packing` gives: where a set is packed of which memory holds no more than a few images.

    Raises:
        InputError: when the set is missing, malformed, has more unreadable files than its limit, or fewer images are
            asked for than there are classes.
    """
    limits = {"train": scale.train_images, "test": scale.test_images, "unlabelled": scale.unlabelled_images}
    if isinstance(params, PhotosSettings):
        return _photos(dataset, params, limits, seed, shards)
    sources = _open(dataset, params, limits, seed)
    if limits["unlabelled"] and not (sources["train"].labels == UNLABELLED).any():
        raise InputError(
            f"unlabelled_images: {limits['unlabelled']} are asked for and {dataset} has none here; put them below ROOT/"
            f"{UNLABELLED_FOLDER} of dataset: folder, take dataset: stl10, or leave unlabelled_images out"
        )
    return prepare_sources(sources, limits, params, seed, shards, f"datasets.{dataset}")


def prepare_sources(
    sources: dict[str, Source], limits: Limits, params: DatasetSettings, seed: int, shards: Path | None, section: str
) -> Prepared:
    """`prepare_images` of sources that are open; sentences name `section`, where the settings are."""
    limited_by = _limited_by(section)
    chosen = {split: _chosen_rows(source, limits, split, seed, limited_by) for split, source in sources.items()}
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
            read[split], bad[split] = packed[0], source.files.described(chosen[split], packed[1])
    if shards is not None:
        log.info("all files are packed; the statistics of the pixels take a second look at each")
    asked = sum(len(rows) for rows in chosen.values())
    _check_bad_files([name for names in bad.values() for name in names.values()], asked, section, params)

    sets = {}
    for split in chosen:
        source = sources.pop(split)  # and below an index: of a million images either takes a hundred megabytes
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
        return Prepared(sets["train"], sets["validation"], sets["test"], bad_files)
    cut = torch.zeros(len(sets["train"]), dtype=torch.bool)
    known = sets["train"].with_class
    if len(known):  # validation is of accuracy
        validated = held_out(sets["train"].labels[known], params.validation_fraction, generator(seed, "validation"))
        cut[known[validated]] = True
    validation = sets["train"].take(cut)
    return Prepared(sets.pop("train").take(~cut), validation, sets["test"], bad_files)


def _photos(dataset: str, params: PhotosSettings, limits: Limits, seed: int, shards: Path | None) -> Prepared:
    """The images of a path, and which files are in which part if the path does not say it."""
    root = root_of(f"datasets.{dataset}.root", params.root)
    with aside() as unpacked:
        try:
            found = find(root, unpacked, params.classes)
        except InputError as error:
            raise InputError(f"datasets.{dataset}.root: {error}") from error
        sources = open_photos(found, params.image_size, params.test_fraction, seed)
        files = {part: source.files for part, source in sources.items()}
        prepared = prepare_sources(sources, limits, params, seed, shards, f"datasets.{dataset}")
    if found.divided:
        return prepared
    parts = {part: getattr(prepared, part) for part in ("train", "validation", "test")}
    return replace(prepared, split={part: _names(files, part, images) for part, images in parts.items()})


def _names(files: Mapping[str, Files], part: str, images: ImageSet) -> list[str]:
    listed = files.get(part, files["train"])  # validation images are rows of the training files
    return [os.path.relpath(path, listed.root) for path in listed.some(images.rows)]


def _open(dataset: str, params: DatasetSettings, limits: Limits, seed: int) -> dict[str, Source]:
    match params:
        case FolderSettings(root=root):
            place = root_of(f"datasets.{dataset}.root", root)
            sources = FOLDERS[dataset](place, params.image_size)
            if dataset == "folder" and limits["unlabelled"] != 0:
                sources["train"] = with_unlabelled(sources["train"], place, params.image_size)
            return sources
        case DownloadSettings(root=root):
            from annulus.datasets.downloads import open_download  # torchvision takes four seconds

            return open_download(
                dataset, root_of(f"datasets.{dataset}.root", root), params.image_size, limits["unlabelled"] != 0
            )
        case MasksSettings(root=root):
            return open_masks(dataset, root_of(f"datasets.{dataset}.root", root), params.image_size)
        case _:
            there = counts(dataset, limits)
            _check_space(there, params, f"datasets.{dataset}", files=False)  # their labels alone may be too many
            return {split: generated(dataset, split, params.image_size, count, seed) for split, count in there.items()}


def _limited_by(section: str) -> str:
    """The section with the numbers of images: of a scale, or of a study's own images."""
    return "scales.SCALE.prepare" if section.startswith("datasets.") else section


def _check_space(images: Mapping[str, int], params: DatasetSettings, section: str, files: bool) -> None:
    size = params.image_size
    # Twice: as they are read, and divided.
    needs = {f"{split} images ({count:,} of {size} px)": 2 * count * 3 * size**2 for split, count in images.items()}
    way_out = f"lower the numbers of images in {_limited_by(section)}"
    if section.startswith("datasets."):
        way_out += f", or {section}.image_size"
    if files and isinstance(params, FilesSettings):
        way_out += f", or give {section}.store jpeg or raw"
    check_space(needs, torch.device("cpu"), way_out)


def _chosen_rows(source: Source, limits: Limits, split: str, seed: int, limited_by: str) -> Int64[Tensor, " k"]:
    """Rows of the split: those with a class by the split's limit, then those without by theirs."""
    missing = source.labels == UNLABELLED
    if not source.classes:
        return (
            torch.randperm(len(missing), generator=generator(seed, "subset", split))[: limits.get(split)].sort().values
        )
    labelled, unlabelled = (~missing).nonzero().squeeze(1), missing.nonzero().squeeze(1)
    chosen = labelled[_even_rows(source.labels[labelled], source.classes, limits.get(split), split, seed, limited_by)]
    limit = limits.get("unlabelled")
    if limit is not None and 0 < len(unlabelled) < limit:
        log.info("unlabelled_images: %d are asked for and there are %d; taking all", limit, len(unlabelled))
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
        log.info("%s_images: %d are asked for and there are %d; taking all", split, limit, there)
    if limit is None or limit >= there:
        return torch.arange(there)
    return even_subset(labels, limit, generator(seed, "subset", split))


def _check_bad_files(names: Sequence[str], asked: int, section: str, params: DatasetSettings) -> None:
    if not names:
        return
    fault = f"{len(names)} of {asked} image files cannot be read: {named(names)}"
    if isinstance(params, PhotosSettings) and len(names) < asked:
        log.warning("WARNING: %s; they are left out", fault)
        return
    if not isinstance(params, FolderSettings):
        raise InputError(f"{fault}; fix or remove them")
    allowed = params.max_bad_files
    if len(names) > allowed:
        raise InputError(f"{fault}. max_bad_files is {allowed}: fix or remove them, or raise {section}.max_bad_files")
    log.warning("%s; going on without (max_bad_files %d)", fault, allowed)


def _check_every_class(image_set: ImageSet, split: str, unread: Sequence[tuple[str, int]]) -> None:
    """Every class has an image, and without classes the split has one. `unread`: bad files and their labels."""
    if len(image_set) == 0 and not image_set.classes and split != "validation":
        raise InputError(f"no {split} image can be read: {named([name for name, _ in unread])}; repair or remove them")
    counts = torch.bincount(image_set.labels[image_set.with_class], minlength=len(image_set.classes))
    lost = [name for name, count in zip(image_set.classes, counts.tolist(), strict=True) if count == 0]
    if lost:
        of_lost = [name for name, label in unread if label != UNLABELLED and image_set.classes[label] in lost]
        why = f", and {named(of_lost)} cannot be read: repair or remove them" if of_lost else ", or remove its folders"
        raise InputError(f"no {split} image can be used of {named(lost)}; every class needs one{why}")


def _check_pixel_classes(train: ImageSet, test: ImageSet) -> None:
    if train.masks is None:
        return
    known, met = (set(part.masks.unique().tolist()) - {IGNORED} for part in (train, test))
    if unknown := sorted(met - known):
        raise InputError(
            f"no train image has a pixel of {named([f'class {number}' for number in unknown])}, and test images have; "
            "give both splits images of them, or mark them 255 (ignored)"
        )
