"""A target's images: opened, limited, read, and given to `save_prepared`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from annulus.config.params import filled
from annulus.datasets.parts import Prepared
from annulus.datasets.prepare import packing, prepare_sources
from annulus.datasets.settings import FolderSettings
from annulus.studies.transfer.params import ImagesParams
from annulus.studies.transfer.target import open_target


@contextmanager
def prepare_target(settings: dict[str, Any]) -> Iterator[Prepared]:
    """The images of a target, in memory or in shards that stay until the block ends; nothing is cut for validation.

    settings: target, root (null where it has no files), images, image_size and seed.

    Raises:
        InputError: when the target's files are missing or malformed, or have too few images.
    """
    name, root, size, seed = (settings[key] for key in ("target", "root", "image_size", "seed"))
    params = filled(ImagesParams, settings["images"])
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
