"""A transfer target by its name."""

from collections.abc import Mapping

from annulus.datasets.source import Source
from annulus.targets.embedded import open_digits, open_generated
from annulus.targets.params import check_target


def open_target(
    name: str, root: str | None, image_size: int, limits: Mapping[str, int | None], seed: int
) -> dict[str, Source]:
    """Train and test of a target, not yet read.

    Raises:
        InputError: for an unknown name, or where its files are not there.
    """
    check_target(name)
    if name == "digits":
        return open_digits(image_size)
    return open_generated(name, image_size, limits, seed)
