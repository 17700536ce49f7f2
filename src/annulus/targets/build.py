"""A transfer target by its name."""

from collections.abc import Mapping

from annulus.datasets.folder import open_folder
from annulus.datasets.source import Source, root_of
from annulus.errors import InputError
from annulus.targets.crops import open_mscoco
from annulus.targets.embedded import open_digits, open_generated
from annulus.targets.folders import open_cub, open_fungi, open_quickdraw
from annulus.targets.params import EMBEDDED, unknown

BY_HAND = {"cub": open_cub, "fungi": open_fungi, "quickdraw": open_quickdraw, "mscoco": open_mscoco}


def open_target(
    name: str, root: str | None, image_size: int, limits: Mapping[str, int | None], seed: int
) -> dict[str, Source]:
    """Train and test of a target, not yet read.

    Raises:
        InputError: for an unknown name, where its files are not there, or where it has one class only.
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
    if name in BY_HAND:
        return BY_HAND[name](path, image_size)
    from annulus.targets.archives import open_archive  # torchvision takes four seconds

    return open_archive(name, path, image_size)
