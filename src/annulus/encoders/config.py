"""`EncoderConfig`: the configuration that rebuilds an encoder, and its checks."""

from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Literal, Self, get_args

from annulus.encoders.convnets import CONVNETS
from annulus.errors import InputError, abridge, nearest
from annulus.files.weights import check_keys, statistics
from annulus.settings import Section
from annulus.views.splits import Split, parse_split

Architecture = Literal[
    "resnet18",
    "resnet34",
    "resnet50",
    "resnet101",
    "resnet152",
    "resnet50_x2",
    "resnet50_x4",
    "resnext101_32x8d",
    "resnext152_32x8d",
    "vit_small",
    *CONVNETS,
]
Stem = Literal["imagenet", "cifar", "patch16", "patch8", "patch4"]  # for vit_small the side of a patch in pixels
Head = Literal["linear", "mlp", "mlp-bn"]
CHOICES = {"architecture": Architecture, "stem": Stem, "head": Head}
MOST = {"embedding_dim": 2**16, "view_size": 1024}


class _Stemmed:
    """Properties of an architecture together with its stem."""

    architecture: Architecture
    stem: Stem

    @property
    def patch(self) -> int:
        """Pixels a side of a transformer's patches, 0 for the other networks."""
        return int(self.stem.removeprefix("patch")) if self.stem.startswith("patch") else 0

    def check_stem(self) -> None:
        """Raises InputError unless the stem fits the kind of network; the message lists the stems of both kinds."""
        if (self.architecture == "vit_small") != (self.patch > 0):
            raise InputError(
                f"{self.architecture} has no stem {self.stem}: vit_small takes patch16, patch8 or patch4, "
                "the other networks take imagenet or cifar"
            )


@dataclass(frozen=True, kw_only=True)
class Backbone(_Stemmed, Section):
    """Network and stem; vit_small's stem is the side of its patches in pixels."""

    architecture: Architecture
    stem: Stem

    def __post_init__(self) -> None:
        super().__post_init__()
        self.check_stem()


@dataclass(frozen=True)
class EncoderConfig(_Stemmed):
    """The arguments that rebuild an encoder; stored as JSON beside its weights.

    >>> config = annulus.EncoderConfig(
    ...     architecture="resnet18", stem="cifar", head="linear", embedding_dim=128, view_size=32, split=None,
    ...     mean=(0.49, 0.48, 0.45), std=(0.25, 0.24, 0.26),
    ... )
    >>> config.planes
    3
    """

    architecture: Architecture
    stem: Stem
    head: Head
    embedding_dim: int  # of each network's embedding
    view_size: int  # pixels a side of the training views
    split: Split | None  # of an image into the inputs of two networks; None: one network sees RGB
    mean: tuple[float, ...]  # of the training images, per channel: RGB in [0, 1], a split's in its own units
    std: tuple[float, ...]

    def __post_init__(self) -> None:
        """Checks the values. A `std` of 0 becomes 1, so a channel that never varies is 0.

        Raises:
            InputError: for an unknown name, a `split` of another type, a size out of range, a mean or deviation that is
                not a number, a stem of another kind of network, or a view size that the patch does not divide.
        """
        for name, kind in CHOICES.items():
            if (given := getattr(self, name)) not in get_args(kind):
                raise InputError(
                    f"{name} {given!r}: give one of {', '.join(get_args(kind))}{nearest(given, get_args(kind))}"
                )
        if not (self.split is None or isinstance(self.split, Split)):
            raise InputError(f'split {abridge(self.split)}: give annulus.views.ColourSplit("lab"), say, or None')
        for name, most in MOST.items():
            if type(given := getattr(self, name)) is not int or not 1 <= given <= most:
                raise InputError(f"{name} {abridge(given)}: give a whole number from 1 to {most:,}")
        for name in ("mean", "std"):
            try:  # as float: a buffer of integers would truncate pixels
                object.__setattr__(self, name, tuple(map(float, getattr(self, name))))
            except (TypeError, ValueError):
                raise self._refused(name) from None
        object.__setattr__(self, "std", tuple(one or 1.0 for one in self.std))
        self.check_stem()
        if self.patch and self.view_size % self.patch:
            raise InputError(
                f"view_size {self.view_size} cannot be cut into patches of {self.patch} pixels; take a view_size that "
                f"is a multiple of {self.patch}, or another stem: patch16, patch8, patch4"
            )

    def check_statistics(self) -> None:
        """Checks the numbers and ranges of means and deviations.

        Raises:
            InputError: unless each channel has a finite mean and deviation, of RGB in [0, 1]; for a deviation below 0.
        """
        for name in ("mean", "std"):
            given = getattr(self, name)
            least = 0 if self.split is None or name == "std" else -inf
            most = 1 if self.split is None else inf
            if len(given) != self._channels or not all(isfinite(one) and least <= one <= most for one in given):
                raise self._refused(name)

    def _refused(self, name: str) -> InputError:
        scale = " of pixels in [0, 1]" if self.split is None else ", 0 or more" if name == "std" else ""
        return InputError(
            f"{name} {abridge(getattr(self, name))}: give {self._channels} numbers{scale}, one for each channel"
        )

    @property
    def _channels(self) -> int:
        return 3 if self.split is None else sum(self.split.planes)

    @property
    def planes(self) -> int:
        """Input channels; of two networks, the sum over both."""
        return len(self.mean)

    @classmethod
    def checked(cls, described: Any) -> Self:
        """Parses the content of the JSON file.

        Raises:
            ValueError: for a missing or unknown key, or a value that no encoder has.
        """
        check_keys(described, cls)
        for name, kind in CHOICES.items():
            if described[name] not in get_args(kind):
                raise ValueError(f"{name} is {described[name]!r}, expected {', '.join(get_args(kind))}")
        for name, most in MOST.items():
            if type(described[name]) is not int or not 1 <= described[name] <= most:
                raise ValueError(f"{name} is {described[name]!r}, expected a whole number from 1 to {most}")
        split = parse_split(described["split"])
        planes = 3 if split is None else sum(split.planes)
        return cls(**described | statistics(described, planes) | {"split": split})
