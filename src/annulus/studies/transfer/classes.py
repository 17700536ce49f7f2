"""Classes of a target for few-shot episodes: all of them, or those that Meta-Dataset holds out."""

import json
from collections.abc import Sequence
from typing import Any

from annulus.datasets.source import root_of
from annulus.errors import InputError
from annulus.files.regular import read_text

# Meta-Dataset's names of its files NAME_splits.json. The two MNISTs have none, Omniglot's are alphabets, and of GTSRB
# every class is held out.
FILES = {
    "aircraft": "aircraft",
    "cub": "cu_birds",
    "dtd": "dtd",
    "fungi": "fungi",
    "mscoco": "mscoco",
    "quickdraw": "quickdraw",
    "vggflower": "vgg_flower",
}


def test_classes(target: str, classes: Sequence[str], folder: str | None) -> list[int]:
    """The numbers of the classes: all, or with a folder those that its file of the target names as `test`.

    A target that Meta-Dataset does not divide keeps all its classes.

    Source: Triantafillou et al. 2020, arXiv:1903.03096, Section 3.1.

    Raises:
        InputError: when the file is missing or malformed, or names a class that the target has not.
    """
    if folder is None or target not in FILES:
        return list(range(len(classes)))
    path = root_of("few_shot.class_splits", folder) / f"{FILES[target]}_splits.json"
    try:
        named = json.loads(read_text(path))["test"]
        known = {_key(target, name): number for number, name in enumerate(classes)}
        return sorted({known[_key(target, name)] for name in named})
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is missing or no file of class splits ({error}); {WAY_OUT}") from error
    except KeyError as error:
        raise InputError(f"{path}: {error} is no key of it or no class of {target}; {WAY_OUT}") from error


def _key(target: str, name: Any) -> Any:
    """A class by its name; of flowers by the number before it, as their names are spelt in several ways.

    Meta-Dataset's first vgg_flower_splits.json has these numbers alone.
    """
    if target != "vggflower":
        return name
    return f"{name:03d}" if isinstance(name, int) else str(name).partition(".")[0]


WAY_OUT = (
    "few_shot.class_splits is a folder with the files of meta_dataset/dataset_conversion/splits in "
    "https://github.com/google-research/meta-dataset, or null for all classes"
)
