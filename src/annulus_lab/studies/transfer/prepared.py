"""Prepares a target's images: opens, limits and reads them for `save_prepared`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from annulus.datasets.parts import DatasetParts
from annulus.datasets.prepare import packing, prepare_sources
from annulus.datasets.settings import FolderSettings
from annulus_lab.config.params import filled
from annulus_lab.studies.transfer.target import open_target
from annulus_lab.studies.transfer.transfer_params import TargetImagesParams


@contextmanager
def prepare_target(settings: dict[str, Any]) -> Iterator[DatasetParts]:
    """Images of a target, in memory or in shards that stay until the block ends; without a validation part.

    settings: target, root (null for a target without files), images, image_size and seed.

    Raises:
        InputError: when the target's files are missing or malformed, or have too few images.
    """
    name, root, size, seed = (settings[key] for key in ("target", "root", "image_size", "seed"))
    params = filled(TargetImagesParams, settings["images"])
    limits = {"train": params.train_images, "test": params.test_images}
    sources = open_target(name, root, size, limits, seed)
    packed = params.store if sources["train"].files else "memory"
    folder = FolderSettings(
        root=root or "",
        image_size=size,
        view_size=size,
        validation_fraction=0.0,
        max_bad_files=params.max_bad_files,
        store=packed,
    )
    with packing(name, folder) as shards:
        yield prepare_sources(sources, limits, folder, seed, shards, "images")
