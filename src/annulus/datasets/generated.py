"""Generated images as a `Source`. Their classes alternate, so the first n images are balanced for every n."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from annulus.datasets import fog
from annulus.datasets.mosaics import draw_mosaics
from annulus.datasets.objects import OBJECTS, draw_masks, draw_objects
from annulus.datasets.shapes import CLASSES, draw_shapes
from annulus.datasets.source import Source
from annulus.device.rng import derive

# Defaults for a limit of null: the numbers of images of CIFAR-10 and DIV2K.
SMALL = {"train": 50_000, "test": 10_000}
LARGE = {"train": 800, "test": 100}


class GeneratedSet(NamedTuple):
    """A generated image set: classes, functions that draw given rows by size and key, and default numbers of images."""

    classes: tuple[str, ...]
    images: Callable[[np.ndarray, int, int], UInt8[Tensor, "n 3 h w"]]
    most: Mapping[str, int]
    masks: Callable[[np.ndarray, int, int], UInt8[Tensor, "n h w"]] | None = None


# By their keys in params.yaml.
GENERATED = {
    "shapes": GeneratedSet(CLASSES, draw_shapes, SMALL),
    "fog": GeneratedSet(fog.CLASSES, fog.draw_fog, SMALL),
    "mosaics": GeneratedSet(CLASSES, draw_mosaics, LARGE),
    "objects": GeneratedSet(OBJECTS, draw_objects, SMALL, draw_masks),
}


def counts(dataset: str, limits: Mapping[str, int | None]) -> dict[str, int]:
    """Number of images in each split."""
    most = GENERATED[dataset].most
    return {split: limits[split] or most[split] for split in most}


def generated(dataset: str, split: str, size: int, count: int, seed: int) -> Source:
    """Source of `count` images of a split. The key of the draws is derived from data set, split and seed."""
    image_set, key = GENERATED[dataset], derive(seed, dataset, split)

    def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
        return image_set.images(rows.numpy(), size, key), {}

    def read_masks(rows: Int64[Tensor, " k"]) -> UInt8[Tensor, "k h w"]:
        return image_set.masks(rows.numpy(), size, key)

    labels = torch.arange(count) % len(image_set.classes)
    return Source(image_set.classes, labels, read, read_masks=read_masks if image_set.masks else None)
