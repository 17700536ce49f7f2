"""Features of one split: computed once per encoder, read by every probe."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Int
from torch import Tensor

from annulus.errors import InputError, abridge
from annulus.files.images import UNLABELLED
from annulus.files.packed import Damaged, check_about, check_labels, check_tensors, read_packed, write_packed

Layer = Literal["map", "pooled", "embedding"]
SPLITS = ("train", "validation", "test")
LABELS = torch.int64, "n"
LAYERS = {"pooled": (torch.float32, "n c"), "embedding": (torch.float32, "n d"), "map": (torch.float16, "n c h w")}


@dataclass(frozen=True)
class Features:
    """Features of a split's images from a frozen encoder.

    If no image has a class, `classes` is empty and each label is -1. `layers` holds `pooled` (n, c) and `embedding`
    (n, d; unit length). It holds the `map` before pooling (n, c, h, w; float16) only if a probe reads it.

    >>> features = annulus.Features({"pooled": torch.rand(10, 64)}, labels=torch.arange(10) % 2, classes=("cat", "dog"))
    >>> features.layer("pooled").shape
    torch.Size([10, 64])
    """

    layers: Mapping[Layer, Tensor]
    labels: Int[Tensor, "n"]
    classes: tuple[str, ...]

    def __post_init__(self) -> None:
        """
        Raises:
            InputError: unless each layer is a tensor of real numbers with a row for each label, each label is -1 or a
                class's number, and each class has a name.
        """
        object.__setattr__(self, "classes", names_of(self.classes))
        labels = self.labels
        if not isinstance(labels, Tensor) or labels.dtype != torch.int64 or labels.ndim != 1:
            kind = f"{labels.dtype} of {labels.ndim} axes" if isinstance(labels, Tensor) else type(labels).__name__
            raise InputError(f"labels are {kind}; give each image's class number, a tensor (n,) of torch.int64")
        if not isinstance(self.layers, Mapping):
            raise InputError(
                f'layers are a {type(self.layers).__name__}; give a mapping, such as {{"pooled": features}}'
            )
        for name, values in self.layers.items():
            if not isinstance(values, Tensor) or values.ndim < 2:
                kind = f"of {values.ndim} axes" if isinstance(values, Tensor) else f"a {type(values).__name__}"
                raise InputError(f"{name} is {kind}; give a tensor, a row of numbers for each image")
            if values.is_complex():
                raise InputError(
                    f"{name} is {str(values.dtype).removeprefix('torch.')}; give real numbers, such as "
                    "torch.view_as_real(features).flatten(1)"
                )
            if len(values) != len(labels):
                raise InputError(
                    f"{name} has {len(values)} rows, labels {len(labels)}: give a row and a label per image"
                )
        if len(labels) and not (labels.min() >= UNLABELLED and labels.max() < len(self.classes)):
            raise InputError(
                f"labels from {labels.min()} to {labels.max()} with {len(self.classes)} classes: give each image the "
                "number of its class, from 0, or -1 where it has none"
            )

    def layer(self, name: Layer) -> Tensor:
        """Returns one layer.

        Raises:
            InputError: if these features do not have it.
        """
        if name not in self.layers:
            raise InputError(
                f"these features hold {', '.join(sorted(self.layers))}, but {name} is asked for; make them with it "
                "(in a checkout of annulus `dvc repro` does, for the layer in its settings)"
            )
        return self.layers[name]


def names_of(classes: Iterable[str]) -> tuple[str, ...]:
    """The classes' names as a tuple.

    Raises:
        InputError: for names that are not text, such as numbers.
    """
    names = tuple(classes) if isinstance(classes, Iterable) else (classes,)
    if not all(isinstance(name, str) for name in names):
        raise InputError(f'classes {abridge(classes)}: give a name for each class, such as ("cat", "dog")')
    return names


def save_features(folder: Path | str, split: str, features: Features) -> None:
    """Writes `folder/SPLIT.safetensors`.

    A file holds `pooled` and `embedding` as float32 and `map` as float16, with finite numbers. Only the split
    `validation` may be empty. If there are classes, each image has one.

    Raises:
        InputError: if the disk is full or the folder cannot be written; if `load_features` would refuse the file.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> features = annulus.Features({"pooled": torch.rand(10, 64)}, labels=torch.arange(10) % 2, classes=("cat", "dog"))
    >>> with TemporaryDirectory() as folder:
    ...     annulus.save_features(Path(folder), "train", features)
    ...     [path.name for path in Path(folder).iterdir()]
    ['train.safetensors']
    """
    path = Path(folder) / f"{split}.safetensors"
    tensors, about = {**features.layers, "labels": features.labels}, {"classes": list(features.classes)}
    try:
        _check(path, tensors, about)
    except Damaged as error:
        _, fault, _ = error.args
        raise InputError(f"{path} is not written: {fault}; give features that a file holds") from None
    write_packed(path, tensors, about)


def load_features(folder: Path | str, split: str) -> Features:
    """Reads a file of `save_features`.

    Raises:
        InputError: if the file is missing or damaged, or annulus did not write it.

    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> features = annulus.Features({"pooled": torch.rand(10, 64)}, labels=torch.arange(10) % 2, classes=("cat", "dog"))
    >>> with TemporaryDirectory() as folder:
    ...     annulus.save_features(Path(folder), "train", features)
    ...     annulus.load_features(Path(folder), "train").classes
    ('cat', 'dog')
    """
    path = Path(folder) / f"{split}.safetensors"
    layers, about = read_packed(path)
    _check(path, layers, about)
    labels = layers.pop("labels")
    return Features(layers, labels, tuple(about["classes"]))


def _check(path: Path, layers: Mapping[str, Tensor], about: Mapping[str, Any]) -> None:
    """Checks the content of a file of features.

    Raises:
        Damaged: with the first fault.
    """
    expected = {"labels": LABELS} | {name: kind for name, kind in LAYERS.items() if name in layers}
    sizes = check_tensors(path, layers, expected, "embed")
    if not all(size for letter, size in sizes.items() if (path.stem, letter) != ("validation", "n")):
        raise Damaged(path, "holds features of no image or without a dimension, expected some", "embed")
    check_about(path, about, {"classes": list}, "embed")
    check_labels(path, layers["labels"], about["classes"], "embed", lowest=0 if about["classes"] else UNLABELLED)


def check_same_classes(train: Features, other: Features, split: str = "test") -> None:
    """Checks that two splits have the same classes and widths of layers, and that each image has a class.

    Raises:
        InputError: with the first class or layer in which they differ; for an image without a class; for a split
            without images, except `validation`.
    """
    for name, features in (("train", train), (split, other)):
        if not isinstance(features, Features):
            raise InputError(f"{name} is a {type(features).__name__}; give annulus.Features, as extract_features does")
        if len(features.labels) == 0 and name != "validation":
            raise InputError(f"{name} features are of no image; give one or more")
        if without := int((features.labels == UNLABELLED).sum()):
            raise InputError(
                f"{without} of {len(features.labels)} {name} images have no class (label -1), and so there is no "
                "accuracy; leave them out"
            )
    for name in sorted(train.layers.keys() & other.layers.keys()):
        widths = [tuple(features.layers[name].shape[1:]) for features in (train, other)]
        if widths[0] != widths[1]:
            raise InputError(
                f"train features have {name} of shape {widths[0]}, {split} features of {widths[1]}; "
                "make both by one encoder (in a checkout of annulus `dvc repro --force embed`)"
            )
    if train.classes != other.classes:
        differing = sorted(set(train.classes) ^ set(other.classes)) or ["their order"]
        raise InputError(
            f"train features have {len(train.classes)} classes, {split} features {len(other.classes)}, "
            f"and they differ in {differing[0]}; make both of one image set (in a checkout of annulus `dvc repro`)"
        )
