"""Settings of image sets: folders, sizes of images and views, numbers of images."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Gt, Le

from annulus.datasets.generated import GENERATED
from annulus.errors import InputError
from annulus.settings import Section, Steps

Classes = Literal["top", "innermost", "none"]  # the folder that names an image's class


@dataclass(frozen=True, kw_only=True)
class DatasetSettings(Section):
    """Settings of every image set: sizes of stored images and views in pixels a side, and the validation share."""

    image_size: Annotated[int, Ge(8), Le(2048)]
    view_size: Annotated[int, Ge(8), Le(1024)]
    validation_fraction: Annotated[float, Ge(0), Le(0.5)]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.view_size > self.image_size:
            raise InputError(
                f"view_size {self.view_size} is larger than image_size {self.image_size}; "
                "store larger images or take smaller views"
            )


@dataclass(frozen=True, kw_only=True)
class GeneratedSettings(DatasetSettings):
    """Settings of generated images, which need no download."""


@dataclass(frozen=True, kw_only=True)
class DownloadSettings(DatasetSettings):
    """Settings of a torchvision set, downloaded into `root` on first use."""

    root: str


@dataclass(frozen=True, kw_only=True)
class FilesSettings(DatasetSettings):
    """Settings of image files under `root`. `store`: pixels in memory, or on the disk as pixels (raw) or JPEG."""

    root: str
    store: Literal["memory", "raw", "jpeg"]


@dataclass(frozen=True, kw_only=True)
class FolderSettings(FilesSettings):
    """Settings of image files in a fixed layout; at most `max_bad_files` may be unreadable."""

    max_bad_files: Annotated[int, Ge(0), Le(10**9)]


@dataclass(frozen=True, kw_only=True)
class PhotosSettings(FilesSettings):
    """Settings of images in any common layout. If they have no splits, `test_fraction` of them is the test part.

    `classes`: the folder that names the class: the first below the root, the innermost, or none.
    """

    test_fraction: Annotated[float, Gt(0), Le(0.5)]
    classes: Classes


@dataclass(frozen=True, kw_only=True)
class MasksSettings(DatasetSettings):
    """Settings of image files with labels of their pixels under `root`."""

    root: str


@dataclass(frozen=True, kw_only=True)
class PrepareBudget(Section):
    """Largest numbers of images in each split; null: no limit. A smaller part is drawn evenly over the classes.

    `unlabelled_images`: further training images without a class; `photos`, `folder` and `stl10` may have some.
    """

    train_images: Steps | None
    test_images: Steps | None
    unlabelled_images: Annotated[int, Ge(0), Le(10**9)] | None


DATASETS = {  # by their keys in params.yaml
    **dict.fromkeys(GENERATED, GeneratedSettings),
    "photos": PhotosSettings,
    "folder": FolderSettings,
    "imagenet": FolderSettings,
    "tinyimagenet": FolderSettings,
    "cifar10": DownloadSettings,
    "cifar100": DownloadSettings,
    "stl10": DownloadSettings,
    "nyu": MasksSettings,
}
MAY_HAVE_UNLABELLED = ("photos", "folder", "stl10")  # images without a class
