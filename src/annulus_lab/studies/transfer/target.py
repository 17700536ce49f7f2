"""Opens a transfer target by its name."""

import http.client
import tarfile
import zipfile
from collections.abc import Mapping

from annulus.datasets.folder import open_folder
from annulus.datasets.source import Source, resolve_root
from annulus.errors import InputError
from annulus_lab.studies.transfer.crops import open_mscoco
from annulus_lab.studies.transfer.embedded import open_digits, open_generated
from annulus_lab.studies.transfer.folders import open_cub, open_fungi, open_quickdraw
from annulus_lab.studies.transfer.layouts import absent
from annulus_lab.studies.transfer.transfer_params import EMBEDDED, unknown

# Errors of our own readers, and of torchvision's, for missing files and files of another kind.
FAULTS = (OSError, RuntimeError, ValueError, LookupError, EOFError, TypeError, AttributeError, ArithmeticError)
FAULTS += (AssertionError, tarfile.TarError, zipfile.BadZipFile, http.client.HTTPException)
BY_HAND = {"cub": open_cub, "fungi": open_fungi, "quickdraw": open_quickdraw, "mscoco": open_mscoco}


def open_target(
    name: str, root: str | None, image_size: int, limits: Mapping[str, int | None], seed: int
) -> dict[str, Source]:
    """Train and test of a target, not yet read.

    Raises:
        InputError: when the name is unknown, the files are missing or different, or the target has only one class.
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
    path = resolve_root(f"roots.{name}", root or "")
    if all((path / split).is_dir() for split in ("train", "test")):
        return open_folder(path, image_size)
    try:
        if name in BY_HAND:
            sources = BY_HAND[name](path, image_size)
        else:
            from annulus_lab.studies.transfer.archives import open_archive  # torchvision takes four seconds

            sources = open_archive(name, path, image_size)
        for split, source in sources.items():
            _check_labels(split, source)
    except FAULTS as error:
        raise absent(name, path, str(error) or f"{type(error).__name__} while it was read") from error
    return sources


def _check_labels(split: str, source: Source) -> None:
    """Checks the labels of a split.

    Raises:
        ValueError: when a split has no image, or a label outside of the classes.
    """
    if len(source.labels) == 0:
        raise ValueError(f"no image for {split}")
    least, most = source.labels.min().item(), source.labels.max().item()
    if least < 0 or most >= len(source.classes):
        raise ValueError(f"labels {least} to {most} for {split}, of {len(source.classes)} classes")
