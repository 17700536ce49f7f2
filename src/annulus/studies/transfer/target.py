"""A transfer target by its name."""

import http.client
import tarfile
import zipfile
from collections.abc import Mapping

from annulus.datasets.folder import open_folder
from annulus.datasets.source import Source, root_of
from annulus.errors import InputError
from annulus.studies.transfer.crops import open_mscoco
from annulus.studies.transfer.embedded import open_digits, open_generated
from annulus.studies.transfer.folders import open_cub, open_fungi, open_quickdraw
from annulus.studies.transfer.layouts import absent
from annulus.studies.transfer.params import EMBEDDED, unknown

# What files of another kind, or of none, end in: our own readers, and torchvision's, which trust theirs.
FAULTS = (OSError, RuntimeError, ValueError, LookupError, EOFError, TypeError, AttributeError, ArithmeticError)
FAULTS += (AssertionError, tarfile.TarError, zipfile.BadZipFile, http.client.HTTPException)
BY_HAND = {"cub": open_cub, "fungi": open_fungi, "quickdraw": open_quickdraw, "mscoco": open_mscoco}


def open_target(
    name: str, root: str | None, image_size: int, limits: Mapping[str, int | None], seed: int
) -> dict[str, Source]:
    """Train and test of a target, not yet read.

    Raises:
        InputError: for an unknown name, where its files are not there or are others, or where it has one class only.
    """
    if fault := unknown(name):
        raise InputError(fault)
    sources = _opened(name, root, image_size, limits, seed)
    if len(sources["train"].classes) < 2:
        raise InputError(f"target {name} has one class, {sources['train'].classes[0]}; at least two are needed")
    return sources


def _opened(
    name: str, root: str | None, image_size: int, limits: Mapping[str, int | None], seed: int
) -> dict[str, Source]:
    if name == "digits":
        return open_digits(image_size)
    if name in EMBEDDED:
        return open_generated(name, image_size, limits, seed)
    path = root_of(f"roots.{name}", root or "")
    if all((path / split).is_dir() for split in ("train", "test")):
        return open_folder(path, image_size)
    try:
        if name in BY_HAND:
            sources = BY_HAND[name](path, image_size)
        else:
            from annulus.studies.transfer.archives import open_archive  # torchvision takes four seconds

            sources = open_archive(name, path, image_size)
        for split, source in sources.items():
            _check_labels(split, source)
    except FAULTS as error:
        raise absent(name, path, str(error) or f"{type(error).__name__} while it was read") from error
    return sources


def _check_labels(split: str, source: Source) -> None:
    """
    Raises:
        ValueError: when a split has no image, or a label that is no class.
    """
    if len(source.labels) == 0:
        raise ValueError(f"no image for {split}")
    least, most = source.labels.min().item(), source.labels.max().item()
    if least < 0 or most >= len(source.classes):
        raise ValueError(f"labels {least} to {most} for {split}, of {len(source.classes)} classes")
