"""The three parts of a prepared data set: their numbers, and their files."""

import hashlib
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from annulus.errors import InputError
from annulus.files.disk import Packed
from annulus.files.images import ImageSet, save_images
from annulus.files.results import Number


@dataclass(frozen=True)
class Prepared:
    """The three parts of a data set; training and validation images have no row in common.

    `split`: the files of each part, where the path did not say it.
    """

    train: ImageSet
    validation: ImageSet
    test: ImageSet
    bad_files: int
    split: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def metrics(self) -> dict[str, Number]:
        """Numbers of images, digests, and the training images' mean and standard deviation per channel, in [0, 1]."""
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


def save_prepared(folder: Path, prepared: Prepared) -> None:
    """Write train, validation and test.safetensors, and the shards of a packed set beside them.

    A failure while they are written leaves the old files.

    Raises:
        InputError: when the disk is full or the folder cannot be written.
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


def shared_images(test: ImageSet, others: Sequence[ImageSet]) -> int:
    """Number of test images with exactly the pixels of an image in the other sets."""
    known = torch.cat([other.images.fingerprints() for other in others])
    return int(torch.isin(test.images.fingerprints(), known).sum())
