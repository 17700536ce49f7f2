"""Targets `cub`, `fungi` and `quickdraw`, whose archives the user unpacks."""

from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.datasets.downloads import resized
from annulus.datasets.folder import natural
from annulus.datasets.source import Source
from annulus.files.regular import check_regular, read_text
from annulus_lab.studies.transfer.layouts import Annotations, read_annotations, source_from_paths

DRAWING = 28  # pixels a side
TEST_SHARE = 10  # the last tenth of a class's drawings is for testing


def open_cub(root: Path, image_size: int) -> dict[str, Source]:
    """Opens CUB-200-2011 in its own division."""
    lists = ("images", "image_class_labels", "train_test_split", "classes")
    paths, labels, train, names = (_numbered(root / f"{name}.txt") for name in lists)
    number = {one: place for place, one in enumerate(sorted(names, key=int))}
    classes = [names[one] for one in number]
    if wrong := [one for one in paths if train[one] not in ("0", "1")]:
        raise ValueError(f"train_test_split.txt marks image {wrong[0]} {train[wrong[0]]}, expected 0 or 1")
    sources = {}
    for split, mark in (("train", "1"), ("test", "0")):
        chosen = [one for one in paths if train[one] == mark]
        numbers = torch.tensor([number[labels[one]] for one in chosen], dtype=torch.int64)
        files = [f"images/{paths[one]}" for one in chosen]
        sources[split] = source_from_paths(root, files, numbers, classes, image_size, split)
    return sources


def open_fungi(root: Path, image_size: int) -> dict[str, Source]:
    """Opens FGVCx Fungi 2018: train.json for training, val.json for testing, since the test images have no labels.

    A class's name begins with its number, since some classes share a name.
    """
    train, val, names = read_annotations(root / "train.json", root / "val.json")
    number = {one: place for place, one in enumerate(sorted(names))}
    classes = [f"{one:04d}.{names[one]}" for one in number]
    parts = {"train": train, "test": val}
    return {split: _annotated(root, part, number, classes, image_size, split) for split, part in parts.items()}


def open_quickdraw(root: Path, image_size: int) -> dict[str, Source]:
    """Opens Quick, Draw!'s bitmaps of 28 x 28 pixels; the last tenth of each class is for testing."""
    paths = sorted((root / "numpy_bitmap").glob("*.npy"), key=lambda path: natural(path.name))
    if not paths:
        raise FileNotFoundError("no numpy_bitmap/*.npy")
    drawings = [_drawings(path) for path in paths]
    borders = [len(members) - max(1, len(members) // TEST_SHARE) for members in drawings]
    train = [members[:border] for members, border in zip(drawings, borders, strict=True)]
    test = [members[border:] for members, border in zip(drawings, borders, strict=True)]
    classes = tuple(path.stem for path in paths)
    return {"train": _bitmaps(train, classes, image_size), "test": _bitmaps(test, classes, image_size)}


def _drawings(path: Path) -> UInt8[np.ndarray, "n 784"]:
    """Drawings of a class, mapped from its file.

    Raises:
        ValueError: when the file holds something else, or fewer than two drawings.
    """
    check_regular(path)
    try:
        with np.errstate(over="ignore"):  # of a size beyond 64 bits, which is refused below
            drawings = np.lib.format.open_memmap(path, mode="r")
    except (OSError, ValueError, SyntaxError, OverflowError) as error:
        raise ValueError(f"{path.name} is not an array of numpy: {error}") from error
    if drawings.dtype != np.uint8 or drawings.ndim != 2 or drawings.shape[1] != DRAWING**2 or len(drawings) < 2:
        raise ValueError(
            f"{path.name} is {drawings.dtype} of shape {drawings.shape}, expected uint8 of (n, 784), n at least 2"
        )
    return drawings


def _numbered(path: Path) -> dict[str, str]:
    """Texts of a file by the number at the start of each line."""
    lines = (line.split(maxsplit=1) for line in read_text(path).splitlines() if line.strip())
    return {number: rest.strip() for number, rest in lines}


def _annotated(
    root: Path, part: Annotations, number: Mapping[int, int], classes: list[str], image_size: int, split: str
) -> Source:
    image_labels = defaultdict(set)
    for one in part.annotations:
        image_labels[one["image_id"]].add(number[one["category_id"]])
    if wrong := [image for image in part.images if len(image_labels[image]) != 1]:
        raise ValueError(f"{split} image {wrong[0]} has {len(image_labels[wrong[0]])} labels, expected one")
    images = sorted(part.images)
    labels = torch.tensor([label for image in images for label in image_labels[image]], dtype=torch.int64)
    return source_from_paths(root, [part.images[image] for image in images], labels, classes, image_size, split)


def _bitmaps(drawings: list[np.ndarray], classes: tuple[str, ...], image_size: int) -> Source:
    ends = np.cumsum([len(members) for members in drawings])
    labels = torch.repeat_interleave(torch.arange(len(drawings)), torch.tensor([len(members) for members in drawings]))

    def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
        small = np.empty((len(rows), DRAWING, DRAWING), np.uint8)
        for place, row in enumerate(rows.tolist()):
            label = int(np.searchsorted(ends, row, side="right"))
            small[place] = drawings[label][row - ends[label]].reshape(DRAWING, DRAWING)
        return grey(torch.from_numpy(small), image_size), {}

    return Source(classes, labels, read)


def grey(small: UInt8[Tensor, "k h w"], image_size: int) -> UInt8[Tensor, "k 3 y x"]:
    """Grey images as RGB of another size."""
    return resized(small[:, None], image_size).expand(-1, 3, -1, -1).contiguous()
