"""Sections that say which images, and how a view is made of one."""

from typing import Literal, Self

from pydantic import Field, model_validator

from annulus.config.params import Fraction, Params, Positive
from annulus.errors import InputError


class DatasetParams(Params):
    """What every image set has: stored and seen size in pixels a side, and the validation part."""

    image_size: int = Field(ge=8, le=2048)
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


class MosaicsParams(DatasetParams):
    """Generated large images, whose near places share more than far ones."""


class ObjectsParams(DatasetParams):
    """Generated images with a class for each pixel."""


class DownloadParams(DatasetParams):
    """A torchvision set, downloaded into `root` on first use."""

    root: str


class FolderParams(DatasetParams):
    """Image files under `root`; `store` is where their pixels are: in memory, or on the disk, as pixels or as JPEG."""

    root: str
    max_bad_files: int = Field(ge=0, le=10**9)
    store: Literal["memory", "raw", "jpeg"]


class MasksParams(DatasetParams):
    """Image files under `root` beside labels of their pixels."""

    root: str


MAY_HAVE_UNLABELLED = ("folder", "stl10")  # images without a class


class Datasets(Params):
    shapes: ShapesParams
    mosaics: MosaicsParams
    objects: ObjectsParams
    folder: FolderParams
    imagenet: FolderParams
    tinyimagenet: FolderParams
    cifar10: DownloadParams
    cifar100: DownloadParams
    stl10: DownloadParams
    nyu: MasksParams


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
    """Colour jitter with torchvision's meaning: factors in [1 - x, 1 + x], hue in [-x, x] turns.

    All four x are multiplied by the strength (Tian et al. 2020, arXiv:2005.10243, Figure 12).
    """

    probability: Fraction
    brightness: float = Field(ge=0, le=1000)
    contrast: float = Field(ge=0, le=1000)
    saturation: float = Field(ge=0, le=1000)
    hue: float = Field(ge=0, le=0.5)
    strength: float = Field(ge=0, le=1000)

    @model_validator(mode="after")
    def _turns(self) -> Self:
        if self.hue * self.strength > 0.5:
            raise ValueError(
                f"hue {self.hue:g} times strength {self.strength:g} is more than half a turn of the hue; "
                "lower one of them"
            )
        return self


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


class RandAugmentParams(Params):
    """RandAugment: so many operators one after the other, each drawn from 14.

    magnitude: 0 to 30, of the most that an operator has; spread: standard deviation of the magnitudes around it;
    probability: of each operator to be applied, else it is left out.
    """

    operators: int = Field(ge=1, le=14)
    magnitude: float = Field(ge=0, le=30)
    spread: float = Field(ge=0, le=30)
    probability: Fraction


class SplitParams(Params):
    """How an image is shared between two networks: by colour, or by frequency; both null: it is not."""

    space: Literal["lab", "ydbdr", "yuv", "yiq", "rgb", "hsv", "xyz"] | None  # its first channel, and the other two
    sigma: Positive | None  # pixels: what a Gaussian blur leaves, and what it takes away

    @model_validator(mode="after")
    def _one(self) -> Self:
        if self.space is not None and self.sigma is not None:
            raise ValueError(f"splits by space: {self.space} and by sigma: {self.sigma:g}; set one of them to null")
        return self

    @property
    def described(self) -> dict[str, str | float] | None:
        """The one that is set, under its name."""
        return {name: value for name, value in self if value is not None} or None


class PatchParams(Params):
    """The two views of an image are squares of view_size pixels at (x, y) and (x + offset, y + offset)."""

    offset: int = Field(ge=0, le=2**16)  # pixels

    def check(self, image_size: int, view_size: int) -> None:
        """Refuse an offset that images of so many pixels a side do not hold.

        Raises:
            InputError: with the three sizes.
        """
        if view_size + self.offset > image_size:
            raise InputError(
                f"patches.offset: {self.offset} puts the second patch of {view_size} pixels (view_size) outside of "
                f"images of {image_size} pixels; take an offset of at most {image_size - view_size}, or larger images"
            )


class ViewSetParams(Params):
    """Which augmentations make a view; null or probability 0 leaves one out."""

    crop: CropParams | None
    flip: Fraction
    jitter: JitterParams | None
    grayscale: Fraction
    blur: BlurParams | None
    rand_augment: RandAugmentParams | None
    patches: PatchParams | None
