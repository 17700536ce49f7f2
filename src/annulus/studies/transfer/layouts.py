"""File layout and download page of each target, for the error about a missing one; splits from lists of image files."""

import os
from collections.abc import Sequence
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from annulus.datasets.folder import of_files
from annulus.datasets.source import Files, Source, encoded
from annulus.errors import InputError

LONGEST = 300  # characters of a reader's error

# Target: its page, and what its root holds. Any of them is also read from train/CLASS/* and test/CLASS/*.
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


# Common mistakes: a pattern that the root then matches, and the right place of its files.
MISPLACED = {
    "quickdraw": (("*.npy", "its *.npy belong into a folder numpy_bitmap"), ("full/*", "its folder full is the root")),
    "trafficsign": (
        ("GTSRB/*", "its folder GTSRB belongs into a folder gtsrb"),
        ("gtsrb/GTSRB/Final_Training/*", "GTSRB/Final_Training/Images is GTSRB/Training of the fixed archive"),
    ),
}


def absent(target: str, root: Path, why: object) -> InputError:
    """The sentence of a target whose files are not there, or are others."""
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
    """A split of image files by their paths from the root."""
    parts = [os.path.split(path) for path in paths]
    folders = sorted({folder for folder, _ in parts})
    number = {folder: place for place, folder in enumerate(folders)}
    folder_of = torch.tensor([number[folder] for folder, _ in parts], dtype=torch.int64)
    files = Files(root, folders, folder_of, encoded([name for _, name in parts]))
    return of_files(classes, labels, files, image_size, split)
