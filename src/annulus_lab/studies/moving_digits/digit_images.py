"""Digits (scikit-learn's or a folder's) and backgrounds (generated or a folder's), packed in one file."""

from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Int64, UInt8
from sklearn.datasets import load_digits
from torch import Tensor

from annulus.datasets.folder import list_split
from annulus.datasets.source import resolve_root
from annulus.device.rng import derive
from annulus.errors import InputError
from annulus.files.packed import check_tensors, read_packed, write_packed
from annulus_lab.studies.moving_digits.digits_params import WorldParams
from annulus_lab.studies.moving_digits.grounds import draw_grounds
from annulus_lab.studies.moving_digits.moving_digits import DigitImages

UNSEEN = 500  # of scikit-learn's digits, the last ones, for testing; the first 1,297 are for training
SHAPES = {
    "digits": (torch.uint8, "m d d"),
    "digit_labels": (torch.int64, "m"),
    "grounds": (torch.uint8, "k 3 g g"),
    "ground_labels": (torch.int64, "k"),
}


def make_images(params: WorldParams, seed: int) -> tuple[DigitImages, DigitImages]:
    """Digits and backgrounds for training and for testing.

    Raises:
        InputError: when a folder lacks class folders in train/ or test/, or an image cannot be read.
    """
    if params.digits is None:
        digits = _scikit_learn(params.digit)
    else:
        digits = [(images[:, 0], labels) for images, labels in _folder("digits", params.digits, params.digit)]
    if params.grounds is None:
        count = params.train_grounds + params.test_grounds
        drawn = draw_grounds(count, params.ground, derive(seed, "grounds"))
        grounds = [tuple(tensor[part] for tensor in drawn) for part in _halves(params.train_grounds)]
    else:
        grounds = _folder("grounds", params.grounds, params.ground)
    train, test = (
        DigitImages(*digit_tensors, *ground_tensors)
        for digit_tensors, ground_tensors in zip(digits, grounds, strict=True)
    )
    return train, test


def save_images(path: Path, images: tuple[DigitImages, DigitImages]) -> None:
    """Writes both splits into one packed file."""
    tensors = {f"{split}_{name}": tensor for split, split_images in zip(("train", "test"), images, strict=True)
               for name, tensor in split_images._asdict().items()}  # fmt: skip
    write_packed(path, tensors, {})


def load_images(path: Path) -> tuple[DigitImages, DigitImages]:
    """Reads both splits from a packed file.

    Raises:
        InputError: when the file is missing, or holds something else.
    """
    tensors, _ = read_packed(path)
    splits = []
    for split in ("train", "test"):
        own = {
            name.removeprefix(f"{split}_"): tensor for name, tensor in tensors.items() if name.startswith(f"{split}_")
        }
        check_tensors(path, own, SHAPES, "images")
        splits.append(DigitImages(**own))
    return splits[0], splits[1]


def _halves(first: int) -> tuple[slice, slice]:
    return slice(first), slice(first, None)


LabelledImages = tuple[UInt8[Tensor, "n ..."], Int64[Tensor, "n"]]


def _scikit_learn(size: int) -> list[LabelledImages]:
    """Digits of 8 x 8 pixels, enlarged to `size` pixels a side."""
    bunch = load_digits()
    small = torch.from_numpy(bunch.images).float()[:, None] * (255 / 16)
    images = F.interpolate(small, size=(size, size), mode="bicubic").clamp(0, 255).round().byte()[:, 0]
    labels = torch.from_numpy(bunch.target).long()
    return [(images[part], labels[part]) for part in _halves(len(labels) - UNSEEN)]


def _folder(key: str, root: str, size: int) -> list[LabelledImages]:
    """All images of root/train/CLASS/* and root/test/CLASS/*."""
    path, splits = resolve_root(f"world.{key}", root), []
    for split in ("train", "test"):
        if not (path / split).is_dir():
            known = "scikit-learn's digits" if key == "digits" else "generated backgrounds"
            raise InputError(
                f"world.{key}: {path} has no folder {split}; images lie in train/CLASS/* and test/CLASS/*: "
                f"name a folder that has them, or null for {known}"
            )
        source = list_split(path, split, size)
        if not len(source.labels):
            raise InputError(f"world.{key}: {path / split} has no class folders; images lie in {split}/CLASS/*")
        images, bad = source.read(torch.arange(len(source.labels)))
        if bad:
            raise InputError(f"world.{key}: {next(iter(bad.values()))} cannot be read; replace it or move it away")
        splits.append((source.classes, images, source.labels))
    if splits[0][0] != splits[1][0]:
        raise InputError(f"world.{key}: train and test of {path} have other classes; give both the same folders")
    return [(images, labels) for _, images, labels in splits]
