"""Sections that say which images, and how a view is made of one."""

from typing import Literal, Self

from pydantic import Field, model_validator

from annulus.config.params import Fraction, Params


class DatasetParams(Params):
    """What every image set has: stored and seen size in pixels a side, and the validation part."""

    image_size: int = Field(ge=8, le=1024)
    view_size: int = Field(ge=8, le=1024)
    validation_fraction: float = Field(ge=0, le=0.5)

    @model_validator(mode="after")
    def _view_fits(self) -> Self:
        if self.view_size > self.image_size:
            raise ValueError(
                f"view_size {self.view_size} is larger than image_size {self.image_size}; "
                "store larger images or take smaller views"
            )
        return self


class ShapesParams(DatasetParams):
    """Generated images: nothing to download."""


class DownloadParams(DatasetParams):
    """A torchvision set, downloaded into `root` on first use."""

    root: str


class FolderParams(DatasetParams):
    """Image files under `root`; `store` is where their pixels are: in memory, or on the disk, as pixels or as JPEG."""

    root: str
    max_bad_files: int = Field(ge=0, le=10**9)
    store: Literal["memory", "raw", "jpeg"]


class Datasets(Params):
    shapes: ShapesParams
    folder: FolderParams
    imagenet: FolderParams
    tinyimagenet: FolderParams
    cifar10: DownloadParams
    cifar100: DownloadParams
    stl10: DownloadParams


class CropParams(Params):
    """Random resized crop: share of the area, and width over height."""

    scale_min: float = Field(ge=1e-6, le=1)
    scale_max: float = Field(ge=1e-6, le=1)
    ratio_min: float = Field(ge=0.001, le=1000)
    ratio_max: float = Field(ge=0.001, le=1000)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for low, high in (("scale_min", "scale_max"), ("ratio_min", "ratio_max")):
            if getattr(self, low) > getattr(self, high):
                raise ValueError(f"needs {low} <= {high}, got {getattr(self, low)} and {getattr(self, high)}")
        return self


class JitterParams(Params):
    """Colour jitter with torchvision's meaning: factors in [1 - x, 1 + x], hue in [-x, x] turns."""

    probability: Fraction
    brightness: float = Field(ge=0, le=1000)
    contrast: float = Field(ge=0, le=1000)
    saturation: float = Field(ge=0, le=1000)
    hue: float = Field(ge=0, le=0.5)


class BlurParams(Params):
    """Gaussian blur; sigma in pixels, uniform between the two."""

    probability: Fraction
    sigma_min: float = Field(ge=1e-6, le=1000)
    sigma_max: float = Field(ge=1e-6, le=1000)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.sigma_min > self.sigma_max:
            raise ValueError(f"needs sigma_min <= sigma_max, got {self.sigma_min} and {self.sigma_max}")
        return self


class ViewSetParams(Params):
    """Which augmentations make a view; null or probability 0 leaves one out."""

    crop: CropParams | None
    flip: Fraction
    jitter: JitterParams | None
    grayscale: Fraction
    blur: BlurParams | None
