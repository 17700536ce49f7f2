"""Sets that torchvision downloads into a root on first use, and checks by MD5: aircraft, dtd, mnist and others.

torchvision's classes with a loader get `str` as the loader, so that an item is an image's path and its label.
"""

import csv
import itertools
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor
from torch.utils.data import Dataset
from torchvision import datasets

from annulus.datasets.downloads import patience
from annulus.datasets.source import Source
from annulus.files.regular import check_regular, read_text
from annulus_lab.studies.transfer.crops import source_from_boxes
from annulus_lab.studies.transfer.folders import grey
from annulus_lab.studies.transfer.layouts import source_from_paths

DRAWERS = 14  # of the 20 people who drew an Omniglot character: their drawings are for training


def open_archive(target: str, root: Path, image_size: int) -> dict[str, Source]:
    """Opens train and test in the set's own division; validation images are for training."""
    opens = {
        "aircraft": _aircraft,
        "dtd": _dtd,
        "trafficsign": _traffic_signs,
        "vggflower": _flowers,
        "omniglot": _omniglot,
    }
    with patience():
        if target in opens:
            return opens[target](root, image_size)
        return _digits(datasets.MNIST if target == "mnist" else datasets.FashionMNIST, root, image_size)


def _digits(kind: type, root: Path, image_size: int) -> dict[str, Source]:
    """Grey images of 28 x 28 pixels."""

    def source(mnist: datasets.MNIST) -> Source:
        if mnist.data.shape != (len(mnist.targets), 28, 28):
            raise ValueError(f"{len(mnist.targets)} labels and images of shape {tuple(mnist.data.shape)}")

        def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
            return grey(mnist.data[rows], image_size), {}

        return Source(tuple(kind.classes), mnist.targets.long(), read)

    return {split: source(kind(root, train=split == "train", download=True)) for split in ("train", "test")}


def _aircraft(root: Path, image_size: int) -> dict[str, Source]:
    """Variants of aircraft. A photograph is cut to its box, without the line that names the author."""
    splits = {
        name: datasets.FGVCAircraft(root, split=split, annotation_level="variant", download=True, loader=str)
        for name, split in (("train", "trainval"), ("test", "test"))
    }
    lines = (line.split() for line in read_text(root / "fgvc-aircraft-2013b/data/images_box.txt").splitlines() if line)
    boxes = {name: [float(edge) for edge in edges] for name, *edges in lines}
    sources = {}
    for split, images in splits.items():
        items = _items(images)
        edges = np.array([boxes[Path(path).stem] for path, _ in items]).reshape(-1, 4)
        # From the first and the last pixel, counted from 1, to corner, width and height.
        cut = np.concatenate([edges[:, :2] - 0.5, edges[:, 2:] - edges[:, :2]], axis=1)
        names = _relative([path for path, _ in items], root)
        labels = torch.tensor([label for _, label in items], dtype=torch.int64)
        sources[split] = source_from_boxes(root, names, cut, labels, images.classes, image_size)
    return sources


def _dtd(root: Path, image_size: int) -> dict[str, Source]:
    for path in (root / "dtd/dtd/labels").glob("*.txt"):
        check_regular(path)
    splits = {split: datasets.DTD(root, split=split, download=True, loader=str) for split in ("train", "val", "test")}
    files = {split: _items(images) for split, images in splits.items()}
    return _sources(root, files, splits["train"].classes, image_size)


def _traffic_signs(root: Path, image_size: int) -> dict[str, Source]:
    """GTSRB; classes have numbers. Frames of one sign follow each other; subsets are not drawn in this order."""
    if (answers := root / "gtsrb/GT-final_test.csv").exists():
        check_regular(answers)
    for split in ("train", "test"):
        datasets.GTSRB(root, split=split, download=True)  # it has no loader, so the files are read here
    signs = root / "gtsrb/GTSRB"
    rows = csv.DictReader(read_text(answers).splitlines(), delimiter=";", skipinitialspace=True)
    files = {
        "train": datasets.DatasetFolder(signs / "Training", str, extensions=(".ppm",)).samples,
        "test": [(signs / "Final_Test/Images" / row["Filename"], int(row["ClassId"])) for row in rows],
    }
    count = 1 + max(label for _, label in files["train"])
    return _sources(root, files, [f"{number:02d}" for number in range(count)], image_size)


def _flowers(root: Path, image_size: int) -> dict[str, Source]:
    """Flowers 102; a class's name begins with its number, from 1, in three digits."""
    splits = ("train", "val", "test")
    files = {split: _items(datasets.Flowers102(root, split=split, download=True, loader=str)) for split in splits}
    names = [f"{number:03d}.{name}" for number, name in enumerate(datasets.Flowers102.classes, 1)]
    return _sources(root, files, names[: 1 + max(label for _, label in files["train"])], image_size)


def _omniglot(root: Path, image_size: int) -> dict[str, Source]:
    """Characters of all alphabets; drawings of 14 people are for training, of the other six for testing."""
    files: dict[str, list[tuple[str, int]]] = {"train": [], "test": []}
    classes: list[str] = []
    for background in (True, False):
        drawn = _items(datasets.Omniglot(root, background=background, download=True, loader=str))
        for _, drawings in itertools.groupby(drawn, key=itemgetter(1)):
            paths = sorted(path for path, _ in drawings)
            for drawer, path in enumerate(paths):
                files["train" if drawer < DRAWERS else "test"].append((path, len(classes)))
            classes.append("-".join(Path(paths[0]).parts[-3:-1]))  # alphabet and character
    return _sources(root, files, classes, image_size)


def _items(images: Dataset) -> list[tuple[str, int]]:
    """Path and label of every image."""
    return [images[row] for row in range(len(images))]


def _sources(
    root: Path, files: Mapping[str, Sequence[tuple[str | Path, int]]], classes: Sequence[str], image_size: int
) -> dict[str, Source]:
    """Sources from files and labels by split; `val` goes to train."""
    parts = {"train": [*files["train"], *files.get("val", [])], "test": files["test"]}
    sources = {}
    for split, part in parts.items():
        labels = torch.tensor([label for _, label in part], dtype=torch.int64)
        sources[split] = source_from_paths(
            root, _relative([path for path, _ in part], root), labels, classes, image_size, split
        )
    return sources


def _relative(paths: Sequence[str | Path], root: Path) -> list[str]:
    return [Path(path).relative_to(root).as_posix() for path in paths]
