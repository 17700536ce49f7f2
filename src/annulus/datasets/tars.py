"""Unpacks tars for `photos`: tars of images in folders, and WebDatasets."""

import json
import os
import platform
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from annulus.datasets.archives import check_names, check_room, joined, needs, sound
from annulus.datasets.decode import SUFFIXES as IMAGE_SUFFIXES
from annulus.datasets.folder import is_aside
from annulus.datasets.listing import ImageListing, arrange, list_files, split_from_name
from annulus.datasets.settings import Classes
from annulus.datasets.tables import LABELS, class_names, find_column
from annulus.errors import InputError

LABEL_FILES = ("cls", "json")  # of a WebDataset's sample


def from_tars(paths: Sequence[Path], unpacked: Path, classes: Classes) -> ImageListing:
    """Unpacks one or several tars, and lists their images.

    Raises:
        InputError: if one is cut or broken, would leave its folder or fill the disk, or a package is missing.
    """
    total = 0
    for path in paths:
        with sound(path), tarfile.open(path) as archive:
            members = _members(archive, path)
            check_names(path, (member.name for member in members))
            total += sum(member.size for member in members)
    check_room(unpacked, total, paths[0] if len(paths) == 1 else paths[0].parent)
    parts, trees = [], []
    for place, path in enumerate(paths):
        folder = unpacked / str(place)
        with sound(path), tarfile.open(path) as archive:
            members = _members(archive, path)
            if _beside_images(member.name for member in members):
                parts.append(_webdataset(path, folder))
            else:
                trees.append((path, folder, _untar(archive, members, folder)))
    return joined([*parts, *([_one_tree(trees, unpacked, classes)] if trees else [])])


def _members(archive: tarfile.TarFile, path: Path) -> list[tarfile.TarInfo]:
    """The files of a tar, with links. tarfile takes a broken header for the end; a sound tar ends with zeros.

    Raises:
        InputError: if it ends otherwise.
    """
    members = [member for member in archive.getmembers() if member.isfile() or member.islnk() or member.issym()]
    archive.fileobj.seek(archive.offset)
    if archive.fileobj.read(tarfile.BLOCKSIZE) != bytes(tarfile.BLOCKSIZE):
        raise InputError(f"{path} is cut or damaged after {len(members)} files; make or copy it again")
    return members


def _untar(archive: tarfile.TarFile, members: Sequence[tarfile.TarInfo], folder: Path) -> list[str]:
    """Writes the files; returns the links that lead out of the archive, which are not followed.

    Raises:
        InputError: if this Python has no filter for what an archive may write.
    """
    if not hasattr(tarfile, "data_filter"):
        raise InputError(
            f"Python {platform.python_version()} cannot keep a tar within its folder; unpack {archive.name} and give "
            "its folder, or take Python 3.11.4 or newer"
        )
    folder.mkdir(parents=True)
    outside = []
    for member in members:
        try:
            archive.extract(member, folder, filter="data")
        except (tarfile.AbsoluteLinkError, tarfile.LinkOutsideDestinationError):
            outside.append(member.name)
    return outside


def _one_tree(trees: Sequence[tuple[Path, Path, list[str]]], root: Path, classes: Classes) -> ImageListing:
    """Lists tars of images in folders as one tree; `trees` has path, folder and omitted links of each."""
    files, names, others, splits = [], [], [], {}
    for path, folder, outside in trees:
        inside, no_images = list_files(folder)
        for name in inside:
            file = f"{folder.relative_to(root)}/{name}"
            files.append(file)
            names.append(name)
            splits[file] = split_from_name(path.name)
        others += [*no_images, *outside]
    listing = replace(arrange(root, files, names, others, classes), kind="a tar")
    return listing if any(listing.splits) else replace(listing, splits=tuple(splits[file] for file in listing.names))


def _webdataset(path: Path, folder: Path) -> ImageListing:
    """Unpacks a tar of samples, each an image with its label (.cls, .json), and lists the images."""
    split = split_from_name(path.name)
    needs("a WebDataset tar", "webdataset")
    import webdataset

    samples = webdataset.WebDataset([str(path.resolve())], shardshuffle=False, empty_check=False)
    images, labelled, others, known = [], [], [], set()
    for sample in samples:
        if sample["__key__"] in known:
            raise InputError(
                f"{path}: the files of the sample {sample['__key__']} do not follow each other; pack it again with "
                "`tar --sort=name`"
            )
        known.add(sample["__key__"])
        if any(map(is_aside, sample["__key__"].split("/"))):
            continue
        kinds = [kind for kind in sample if f".{kind.rpartition('.')[2].lower()}" in IMAGE_SUFFIXES]
        if len(kinds) > 1:
            raise InputError(
                f"{path}: the sample {sample['__key__']} has {len(kinds)} images, {', '.join(kinds)}; give one a sample"
            )
        if not kinds:
            others.append(f"{sample['__key__']} of {path.name}")
            continue
        (image,) = kinds
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{len(images):08}.{image.rpartition('.')[2].lower()}"
        (folder / name).write_bytes(sample[image])
        images.append(name)
        labelled.append(_label(sample))
    classes = class_names(path, "label", labelled)
    return ImageListing("WebDataset tars", folder, tuple(images), classes, (split,) * len(images), tuple(others))


def _beside_images(names: Iterable[str]) -> bool:
    """Returns True if a label file has the same folder and name (up to its first point) as an image."""
    kinds = defaultdict(set)
    for name in names:
        folder, base = os.path.split(name)
        key, _, ending = base.partition(".")
        kinds[folder, key].add(ending.rpartition(".")[2].lower())
    images = {suffix[1:] for suffix in IMAGE_SUFFIXES}
    return any(endings & images and endings & set(LABEL_FILES) for endings in kinds.values())


def _label(sample: Mapping[str, Any]) -> Any:
    if "cls" in sample:
        return sample["cls"]
    about = json.loads(sample.get("json", b"{}"))
    column = find_column(list(about), LABELS) if isinstance(about, dict) else None
    return about[column] if column else None
