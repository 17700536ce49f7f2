"""File layout and download page of each target, for the error about a missing one.

It also has parts that several readers share: splits from lists of image files, and annotation files in COCO's form.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from jaxtyping import Int64
from torch import Tensor

from annulus.datasets.folder import files_source
from annulus.datasets.source import FileList, Source, encoded
from annulus.errors import InputError
from annulus.files.regular import read_text

LONGEST = 300  # characters of a reader's error

# Target: its page, and the content of its root. Every target can also have the layout train/CLASS/*, test/CLASS/*.
LAYOUTS = {
    "aircraft": (
        "https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
        "fgvc-aircraft-2013b/data with images/*.jpg, images_variant_*.txt and images_box.txt",
    ),
    "cub": (
        "https://www.vision.caltech.edu/datasets/cub_200_2011/",
        "images/CLASS/*.jpg, images.txt, classes.txt, image_class_labels.txt and train_test_split.txt",
    ),
    "dtd": ("https://www.robots.ox.ac.uk/~vgg/data/dtd/", "dtd/dtd with images/CLASS/*.jpg and labels/*.txt"),
    "fungi": (
        "https://github.com/visipedia/fgvcx_fungi_comp",
        "images/CLASS/*.JPG, train.json and val.json",
    ),
    "mnist": ("https://github.com/cvdfoundation/mnist", "MNIST/raw with four files *-ubyte"),
    "fashionmnist": ("https://github.com/zalandoresearch/fashion-mnist", "FashionMNIST/raw with four files *-ubyte"),
    "trafficsign": (
        "https://benchmark.ini.rub.de/gtsrb_dataset.html",
        "gtsrb with GTSRB/Training/CLASS/*.ppm, GTSRB/Final_Test/Images/*.ppm and GT-final_test.csv, as the archives "
        "GTSRB-Training_fixed, GTSRB_Final_Test_Images and GTSRB_Final_Test_GT unpack there",
    ),
    "vggflower": (
        "https://www.robots.ox.ac.uk/~vgg/data/flowers/102/",
        "flowers-102 with jpg/*.jpg, imagelabels.mat and setid.mat",
    ),
    "mscoco": (
        "https://cocodataset.org/#download",
        "train2017/*.jpg, val2017/*.jpg and annotations/instances_train2017.json, instances_val2017.json",
    ),
    "omniglot": (
        "https://github.com/brendenlake/omniglot",
        "omniglot-py with images_background.zip and images_evaluation.zip, and both unpacked",
    ),
    "quickdraw": (
        "https://github.com/googlecreativelab/quickdraw-dataset",
        "numpy_bitmap/CLASS.npy, the files of the bucket's folder full/numpy_bitmap",
    ),
}


# Common mistakes: a pattern that the root then has, and the right place of its files.
MISPLACED = {
    "quickdraw": (("*.npy", "its *.npy belong into a folder numpy_bitmap"), ("full/*", "its folder full is the root")),
    "trafficsign": (
        ("GTSRB/*", "its folder GTSRB belongs into a folder gtsrb"),
        ("gtsrb/GTSRB/Final_Training/*", "GTSRB/Final_Training/Images is GTSRB/Training of the fixed archive"),
    ),
}


def absent(target: str, root: Path, why: object) -> InputError:
    """Error for a target whose files are missing or different."""
    page, layout = LAYOUTS[target]
    hints = [hint for pattern, hint in MISPLACED.get(target, ()) if any(root.glob(pattern))]
    reasons = "; ".join([" ".join(str(why).split())[:LONGEST], *hints])
    return InputError(
        f"target {target}: {root} does not hold it ({reasons}). It needs {layout}, from {page}; "
        f"or train/CLASS/* and test/CLASS/*. Set roots.{target} in stages/transfer/params.yaml, or leave the target out"
    )


def source_from_paths(
    root: Path, paths: Sequence[str], labels: Int64[Tensor, " n"], classes: Sequence[str], image_size: int, split: str
) -> Source:
    """Split of image files by their paths from the root."""
    parts = [os.path.split(path) for path in paths]
    folders = sorted({folder for folder, _ in parts})
    number = {folder: place for place, folder in enumerate(folders)}
    folder_numbers = torch.tensor([number[folder] for folder, _ in parts], dtype=torch.int64)
    files = FileList(root, folders, folder_numbers, encoded([name for _, name in parts]))
    return files_source(classes, labels, files, image_size, split)


class Annotations(NamedTuple):
    """Images of a file (paths by id) and its annotations, each with a known image and category."""

    images: dict[int, str]
    annotations: list[dict[str, Any]]


def read_annotations(train: Path, val: Path) -> tuple[Annotations, Annotations, dict[int, str]]:
    """Reads both files; returns their annotations and the categories' names by id.

    Raises:
        ValueError: when an id occurs twice, an annotation has an unknown id, or the categories differ.
    """
    parts, names = [], []
    for path in (train, val):
        content = json.loads(read_text(path))
        images, categories = _by_id(path, content, "images", "file_name"), _by_id(path, content, "categories", "name")
        for one in content["annotations"]:
            for key, known in (("image_id", images), ("category_id", categories)):
                if one[key] not in known:
                    raise ValueError(f"an annotation of {path.name} has the {key} {one[key]!r}, which is not there")
        parts.append(Annotations(images, content["annotations"]))
        names.append(categories)
    if differ := sorted(set(names[0].items()) ^ set(names[1].items())):
        raise ValueError(
            f"{len(differ)} categories differ between {train.name} and {val.name}, {differ[0]} first; take both of one "
            "version"
        )
    return *parts, names[0]


def _by_id(path: Path, content: Mapping[str, Any], part: str, key: str) -> dict[int, str]:
    by_id = {one["id"]: one[key] for one in content[part]}
    if len(by_id) < len(content[part]):
        raise ValueError(f"{path.name} has {len(content[part])} {part} of {len(by_id)} ids; each needs one of its own")
    return by_id
