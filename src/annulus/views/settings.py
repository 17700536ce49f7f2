"""Sections that say how a view is made of an image."""

from dataclasses import dataclass
from typing import Annotated, Literal

from annotated_types import Ge, Le

from annulus.errors import InputError
from annulus.settings import Fraction, Positive, Section


@dataclass(frozen=True, kw_only=True)
class CropSettings(Section):
    """Random resized crop: share of the area, and width over height."""

    scale_min: Annotated[float, Ge(1e-6), Le(1)]
    scale_max: Annotated[float, Ge(1e-6), Le(1)]
    ratio_min: Annotated[float, Ge(0.001), Le(1000)]
    ratio_max: Annotated[float, Ge(0.001), Le(1000)]

    def __post_init__(self) -> None:
        for low, high in (("scale_min", "scale_max"), ("ratio_min", "ratio_max")):
            if getattr(self, low) > getattr(self, high):
                raise InputError(f"needs {low} <= {high}, got {getattr(self, low)} and {getattr(self, high)}")


@dataclass(frozen=True, kw_only=True)
class JitterSettings(Section):
    """Colour jitter with torchvision's meaning: factors in [1 - x, 1 + x], hue in [-x, x] turns.

    All four x are multiplied by the strength (Tian et al. 2020, arXiv:2005.10243, Figure 12).
    """

    probability: Fraction
    brightness: Annotated[float, Ge(0), Le(1000)]
    contrast: Annotated[float, Ge(0), Le(1000)]
    saturation: Annotated[float, Ge(0), Le(1000)]
    hue: Annotated[float, Ge(0), Le(0.5)]
    strength: Annotated[float, Ge(0), Le(1000)]

    def __post_init__(self) -> None:
        if self.hue * self.strength > 0.5:
            raise InputError(
                f"hue {self.hue:g} times strength {self.strength:g} is more than half a turn of the hue; "
                "lower one of them"
            )


@dataclass(frozen=True, kw_only=True)
class BlurSettings(Section):
    """Gaussian blur; sigma in pixels, uniform between the two."""

    probability: Fraction
    sigma_min: Annotated[float, Ge(1e-6), Le(1000)]
    sigma_max: Annotated[float, Ge(1e-6), Le(1000)]

    def __post_init__(self) -> None:
        if self.sigma_min > self.sigma_max:
            raise InputError(f"needs sigma_min <= sigma_max, got {self.sigma_min} and {self.sigma_max}")


@dataclass(frozen=True, kw_only=True)
class RandAugmentSettings(Section):
    """RandAugment: so many operators one after the other, each drawn from 14.

    magnitude: 0 to 30, of the most that an operator has; spread: standard deviation of the magnitudes around it;
    probability: of each operator to be applied, else it is left out.
    """

    operators: Annotated[int, Ge(1), Le(14)]
    magnitude: Annotated[float, Ge(0), Le(30)]
    spread: Annotated[float, Ge(0), Le(30)]
    probability: Fraction


@dataclass(frozen=True, kw_only=True)
class SplitSettings(Section):
    """How an image is shared between two networks: by colour, or by frequency; both null: it is not."""

    space: Literal["lab", "ydbdr", "yuv", "yiq", "rgb", "hsv", "xyz"] | None  # its first channel, and the other two
    sigma: Positive | None  # pixels: what a Gaussian blur leaves, and what it takes away

    def __post_init__(self) -> None:
        if self.space is not None and self.sigma is not None:
            raise InputError(f"splits by space: {self.space} and by sigma: {self.sigma:g}; set one of them to null")

    @property
    def described(self) -> dict[str, str | float] | None:
        """The one that is set, under its name."""
        return {name: value for name, value in vars(self).items() if value is not None} or None


@dataclass(frozen=True, kw_only=True)
class PatchSettings(Section):
    """The two views of an image are squares of view_size pixels at (x, y) and (x + offset, y + offset)."""

    offset: Annotated[int, Ge(0), Le(2**16)]  # pixels

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


@dataclass(frozen=True, kw_only=True)
class ViewSet(Section):
    """Which augmentations make a view; null or probability 0 leaves one out."""

    crop: CropSettings | None
    flip: Fraction
    jitter: JitterSettings | None
    grayscale: Fraction
    blur: BlurSettings | None
    rand_augment: RandAugmentSettings | None
    patches: PatchSettings | None
