"""`ImageSet`: labelled images, and their packed file."""

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Self

import torch
from jaxtyping import Bool, Int64, UInt8
from torch import Tensor

from annulus.errors import InputError
from annulus.files.disk import Packed, open_packed
from annulus.files.packed import check_about, check_labels, check_tensors, read_packed, write_packed
from annulus.files.shards import NUMBERS, PLACES
from annulus.files.store import Resident, Store

Channels = tuple[float, float, float]
Masks = UInt8[Tensor, "n h w"]
IGNORED = 255  # in a mask: a pixel without a class
LEAST_STD = 1 / 32  # of a channel that varies: no level is farther than 32 deviations from the mean
UNLABELLED = -1  # label of an image without a class, which only trains encoders


@dataclass(frozen=True)
class ImageSet:
    """Images and their labels; a label is UNLABELLED for an image without a class. The set may be empty.

    `rows` are the images' numbers in the whole source split (the generated sequence, the sorted files, the archive).
    `masks` are the classes of the pixels, IGNORED for a pixel without a class. Only images in memory have masks, of
    the same height and width.
    """

    images: Store
    labels: Int64[Tensor, " n"]
    rows: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    masks: Masks | None = None

    def __len__(self) -> int:
        return len(self.images)

    def take(self, chosen: Int64[Tensor, " k"] | Bool[Tensor, " n"]) -> Self:
        """Selects images by position or mask."""
        index = chosen.nonzero().squeeze(1) if chosen.dtype == torch.bool else chosen
        masks = None if self.masks is None else self.masks[index]
        return type(self)(self.images.some(index), self.labels[index], self.rows[index], self.classes, masks)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of class names, labels, pixels (in shards: their fingerprints), and masks if there are any."""
        shape = (len(self), 3, self.images.side, self.images.side)
        digest = hashlib.sha256(repr((self.classes, shape)).encode())
        digest.update(self.labels.numpy().astype("<i8").tobytes())
        for part in self.images.content():
            digest.update(part)
        if self.masks is not None:
            digest.update(self.masks.contiguous().numpy().data)
        return digest.hexdigest()

    @cached_property
    def with_class(self) -> Int64[Tensor, " k"]:
        """The positions of the images that have a class, ascending."""
        return (self.labels != UNLABELLED).nonzero().squeeze(1)

    def labelled(self) -> Self:
        """The images that have a class; this set itself if all have one."""
        return self if len(self.with_class) == len(self) else self.take(self.with_class)

    @property
    def evaluated(self) -> Int64[Tensor, " k"]:
        """The positions of the images that frozen encoders embed: images with a class; all in a set without classes."""
        return self.with_class if self.classes else torch.arange(len(self))

    def on(self, device: torch.device) -> Self:
        """The same set with its images on a device."""
        return replace(self, images=self.images.on(device))

    def channel_statistics(self) -> tuple[Channels, Channels]:
        """Mean and standard deviation of red, green and blue, in [0, 1].

        Counts of the 256 levels make both exact and independent of the order of summation. A deviation above 0 is
        raised to `LEAST_STD`, since normalisation would divide by the tiny deviation of a channel that varies in one
        pixel.
        """
        levels = torch.arange(256, dtype=torch.float64) / 255
        means, deviations = [], []
        for counts in self.images.levels():
            share = counts.double() / counts.sum()
            mean = (share * levels).sum()
            means.append(mean.item())
            deviation = (share * (levels - mean) ** 2).sum().sqrt().item()
            deviations.append(max(deviation, LEAST_STD) if deviation else 0.0)
        return tuple(means), tuple(deviations)


def save_images(path: Path, image_set: ImageSet) -> None:
    """Writes one packed file, whole or not at all: the pixels of images in memory, else their positions in shards."""
    tensors = {"labels": image_set.labels, "rows": image_set.rows}
    about = {"classes": image_set.classes, "digest": image_set.digest}
    match image_set.images:
        case Resident(pixels=pixels):
            tensors |= {"images": pixels} | ({} if image_set.masks is None else {"masks": image_set.masks})
        case Packed() as packed:
            tensors |= packed.places._asdict() | {"levels": packed.levels()}
            about |= {"kind": packed.kind, "side": packed.side, "shards": packed.shards.lengths}
    write_packed(path, tensors, about)


def load_images(path: Path) -> ImageSet:
    """Reads a file of `save_images`.

    Raises:
        InputError: if the file is missing or has another content, or it or its shards are damaged.
    """
    tensors, about = read_packed(path)
    if "images" not in tensors and "fingerprint" not in tensors:
        raise InputError(f"{path} is a file of annulus, but holds no images; give a file that `prepare` wrote")
    in_memory = "images" in tensors
    pixels = {"images": (torch.uint8, "n 3 h h")} if in_memory else {"levels": (torch.int64, "3 256")} | PLACES
    if in_memory and "masks" in tensors:
        pixels |= {"masks": (torch.uint8, "n h h")}
    check_tensors(path, tensors, pixels | {"labels": NUMBERS, "rows": NUMBERS}, "prepare")
    check_about(path, about, {"classes": list}, "prepare")
    check_labels(path, tensors["labels"], about["classes"], "prepare", lowest=UNLABELLED)
    labels, rows = tensors.pop("labels"), tensors.pop("rows")
    store = Resident(tensors["images"]) if in_memory else open_packed(path, tensors, about)
    return ImageSet(store, labels, rows, tuple(about["classes"]), tensors.get("masks"))
