"""Classes of a target for few-shot episodes: all classes, or the held-out ones of Meta-Dataset."""

import json
from collections.abc import Sequence
from typing import Any

from annulus.datasets.source import resolve_root
from annulus.errors import InputError
from annulus.files.regular import read_text

# Meta-Dataset's names of its files NAME_splits.json. The two MNISTs have no file, Omniglot's lists alphabets, and all
# classes of GTSRB are held out.
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
    """Numbers of the episodes' classes: all, or with a folder the `test` classes of the target's file in it.

    A target that Meta-Dataset does not divide keeps all its classes.

    Source: Triantafillou et al. 2020, arXiv:1903.03096, Section 3.1.

    Raises:
        InputError: when the file is missing or malformed, or names a class that the target lacks.
    """
    if folder is None or target not in FILES:
        return list(range(len(classes)))
    path = resolve_root("few_shot.class_splits", folder) / f"{FILES[target]}_splits.json"
    try:
        names = json.loads(read_text(path))["test"]
        known = {_key(target, name): number for number, name in enumerate(classes)}
        return sorted({known[_key(target, name)] for name in names})
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path} is missing or not a file of class splits ({error}); {WAY_OUT}") from error
    except KeyError as error:
        raise InputError(f"{path} has no key {error}, or {target} has no such class; {WAY_OUT}") from error


def _key(target: str, name: Any) -> Any:
    """Key of a class: its name; for flowers the number before the name, since the spelling of the names varies.

    Meta-Dataset's first vgg_flower_splits.json has only these numbers.
    """
    if target != "vggflower":
        return name
    return f"{name:03d}" if isinstance(name, int) else str(name).partition(".")[0]


WAY_OUT = (
    "few_shot.class_splits is a folder with the files of meta_dataset/dataset_conversion/splits in "
    "https://github.com/google-research/meta-dataset, or null for all classes"
)
