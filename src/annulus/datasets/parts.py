"""`DatasetParts`: the three parts of a prepared data set, with their metrics and files."""

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from annulus.errors import InputError
from annulus.files.disk import Packed
from annulus.files.images import ImageSet, save_images
from annulus.files.regular import read_text
from annulus.files.results import Number, write_text

NAMES = "names.json"  # files of each part


@dataclass(frozen=True)
class DatasetParts:
    """The three parts of a data set. Training and validation images share no row.

    `names` lists the files of each part of own images. `drawn`: the split was drawn.
    """

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    bad_files: int
    names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    drawn: bool = False

    @property
    def split(self) -> Mapping[str, Sequence[str]]:
        """The files of each part if the split was drawn, else nothing."""
        return self.names if self.drawn else {}

    def metrics(self) -> dict[str, Number]:
        """Numbers of images, digests, and mean and standard deviation per channel of the training images, in [0, 1]."""
        mean, std = self.train.channel_statistics()
        parts = (self.train, self.validation, self.test)
        digests = "".join(part.digest for part in parts)
        unlabelled = len(self.train) - len(self.train.with_class)
        numbers: dict[str, Number] = {
            "train_images": len(self.train),
            **({"unlabelled_images": unlabelled} if unlabelled else {}),
            "validation_images": len(self.validation),
            "test_images": len(self.test),
            "classes": len(self.train.classes),
            "image_size": self.train.images.side,
            "bad_files": self.bad_files,
            "test_images_also_in_train": shared_images(self.test, (self.train, self.validation)),
            "digest": hashlib.sha256(digests.encode()).hexdigest()[:16],
            "test_digest": self.test.digest[:16],
        }
        for channel, name in enumerate(("red", "green", "blue")):
            numbers |= {f"{name}_mean": mean[channel], f"{name}_std": std[channel]}
        return numbers


def save_prepared(folder: Path, prepared: DatasetParts) -> None:
    """Writes train, validation and test.safetensors, the shards of a packed set, and `NAMES` of own images.

    After a failure the old files stay.

    Raises:
        InputError: if the disk is full or the folder cannot be written.
    """
    temporary = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        aside = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
        aside.mkdir()
        temporary = aside
        for split in ("train", "validation", "test"):
            part = getattr(prepared, split)
            save_images(temporary / f"{split}.safetensors", part)
            if isinstance(part.images, Packed):
                part.images.shards.link(temporary)
        if prepared.names:
            write_text(temporary / NAMES, json.dumps(prepared.names, indent=1) + "\n")
        if folder.exists():
            shutil.rmtree(folder)
        temporary.replace(folder)
    except OSError as error:
        raise InputError(
            f"cannot write {folder}: {error.strerror or error}; free some space or fix the permissions, then run again"
        ) from error
    finally:
        if temporary is not None:
            shutil.rmtree(temporary, ignore_errors=True)


def read_names(folder: Path) -> dict[str, list[str]] | None:
    """The files of each part that `save_prepared` wrote into `folder`; None without."""
    path = folder / NAMES
    return json.loads(read_text(path)) if path.exists() else None


def shared_images(test: ImageSet, others: Sequence[ImageSet]) -> int:
    """Number of test images with the same pixels as an image in the other sets."""
    known = torch.cat([other.images.fingerprints() for other in others])
    return int(torch.isin(test.images.fingerprints(), known).sum())
