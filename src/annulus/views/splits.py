"""Splits of an image into two parts. Each part has its own network, and the loss contrasts the two.

Source: Tian et al. 2019, arXiv:1906.05849, Section 3 (CMC); Tian et al. 2020, arXiv:2005.10243, Sections 5.2.2 and
5.2.3.
"""

from dataclasses import dataclass, replace
from math import ceil, inf
from numbers import Real
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from annulus.errors import InputError, abridge
from annulus.files.store import Store, pieces
from annulus.views.gaussian import gaussian_blur
from annulus.views.learned import LearnedSplit
from annulus.views.settings import ViewSet
from annulus.views.spaces import LEVEL, SPACES, rgb_to_lab

COLOURLESS = 0.5  # standard deviation of CIELAB's a or b: rounding greys to 8 bits gives 0.2, one level up or down 0.6
REACH = 4  # a Gaussian is cut at this number of standard deviations
CHUNK_PIXELS = 2**18
MOST_PIXELS = 2**27  # 2,048 images of 256 px; all of 131,072 of 32 px

Parts = tuple[Float[Tensor, "b p h w"], Float[Tensor, "b q h w"]]
Statistics = tuple[tuple[float, ...], tuple[float, ...]]


@dataclass(frozen=True)
class ColourSplit:
    """Splits the first channel of a colour space ("lab", "ydbdr" and others) from the other two, in its own units.

    An `EncoderConfig` with this split has two networks. Its mean and std hold the statistics of the three channels over
    the training images.

    Source: Tian et al. 2019, arXiv:1906.05849, Section 3 (CMC).

    >>> import annulus
    >>> import torch
    >>> lightness, colour = annulus.views.ColourSplit("lab")(torch.rand(8, 3, 32, 32))
    >>> lightness.shape, colour.shape
    (torch.Size([8, 1, 32, 32]), torch.Size([8, 2, 32, 32]))
    >>> config = annulus.EncoderConfig("convnet", "cifar", "linear", 16, 32, annulus.views.ColourSplit("lab"),
    ...                                mean=(50.0, 0.0, 0.0), std=(25.0, 15.0, 15.0))
    >>> cmc = annulus.IR.create(annulus.build_encoder(config, seed=0), images=100)
    """

    space: str

    def __post_init__(self) -> None:
        if not isinstance(self.space, str) or self.space not in SPACES:
            raise InputError(f"colour space {abridge(self.space)} is none of {', '.join(SPACES)}")

    @property
    def names(self) -> tuple[str, str]:
        """Names of the parts: l and ab."""
        return SPACES[self.space].first, SPACES[self.space].rest

    planes = 1, 2  # channels of the parts

    @property
    def least(self) -> float:
        """Least standard deviation of a channel; below it is noise."""
        return SPACES[self.space].least

    def __call__(self, images: Float[Tensor, "b 3 h w"]) -> Parts:
        return SPACES[self.space].from_rgb(images).split([1, 2], dim=1)


@dataclass(frozen=True)
class FrequencySplit:
    """Low and high frequencies of an image: a Gaussian blur of `sigma` pixels, and the remainder.

    Source: Tian et al. 2020, arXiv:2005.10243, Section 5.2.3.

    >>> import torch
    >>> from annulus.views import FrequencySplit
    >>> images = torch.rand(8, 3, 32, 32)
    >>> low, high = FrequencySplit(sigma=1.0)(images)
    >>> torch.allclose(low + high, images)
    True
    """

    sigma: float

    def __post_init__(self) -> None:
        if isinstance(self.sigma, bool) or not (isinstance(self.sigma, Real) and 0 < self.sigma < inf):
            sigma = f"{self.sigma:g}" if isinstance(self.sigma, Real) else abridge(self.sigma)
            raise InputError(f"sigma {sigma} of a frequency split is not a width; take more than 0 pixels")
        object.__setattr__(self, "sigma", float(self.sigma))  # JSON files hold sigma as a float

    names = "low", "high"
    planes = 3, 3
    least = LEVEL

    def __call__(self, images: Float[Tensor, "b 3 h w"]) -> Parts:
        images = images.to(torch.promote_types(images.dtype, torch.float32))
        reach = min(ceil(REACH * self.sigma), min(images.shape[2:]) - 1)  # at most the image: borders mirror it once
        sigma = torch.full((len(images),), self.sigma, device=images.device)
        low = gaussian_blur(images, sigma, 2 * reach + 1)
        return low, images - low


Split = ColourSplit | FrequencySplit | LearnedSplit


def keeping_colour(views: ViewSet, split: Split | None) -> ViewSet:
    """Returns the views without greyscale if the split is by colour, since a grey view has none.

    Source: Wu et al. 2020, arXiv:2005.13149, Appendix C.1.
    """
    return views if split is None or isinstance(split, FrequencySplit) else replace(views, grayscale=0.0)


def parse_split(described: Any) -> Split | None:
    """Builds the split of {"space": "lab"}, {"sigma": 1.0}, or {"generator": file, "sha256": its sum}; None for None.

    Raises:
        ValueError: for another description.
    """
    match described:
        case None:
            return None
        case {"space": str(space), **rest} if not rest:
            return ColourSplit(space)
        case {"sigma": float(sigma), **rest} if not rest:
            return FrequencySplit(sigma)
        case {"generator": str(generator), "sha256": str(sha256), **rest} if not rest:
            return LearnedSplit(generator, sha256)
        case _:
            raise ValueError(f"split is {described!r}, expected null, a colour space, a sigma or a view generator")


@torch.no_grad()
def channel_statistics(images: Store, split: Split, grey: bool = False) -> Statistics:
    """Mean and standard deviation of each channel of both parts, over a data set's pixels. The first part is first.

    Beyond `MOST_PIXELS` pixels, a fixed selection of images is used. A standard deviation is at least `split.least`:
    dividing by less would show an encoder the rounding of 8 bits. `grey` accepts images without colour: a colour split
    cannot learn from them, but a trained encoder can embed them.

    Raises:
        InputError: if the split is by colour and the images have none.
    """
    sums, lab_sums = (
        torch.zeros(2, count, dtype=torch.float64, device=images.device) for count in (sum(split.planes), 3)
    )
    chosen, pixels, coloured = torch.arange(len(images)), 0, not (grey or isinstance(split, FrequencySplit))
    if (most := MOST_PIXELS // images.side**2) < len(images):
        chosen = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))[:most].sort().values
    for index, chunk in images.in_turn(chosen.split(max(1, CHUNK_PIXELS // images.side**2))):
        for part in pieces(chunk, images.image_sizes(index)):
            part = part.float().div_(255)
            _add(sums, torch.cat(split(part), dim=1))
            if coloured:
                _add(lab_sums, rgb_to_lab(part))
            pixels += part[:, 0].numel()
    if coloured:
        _check_colours(_mean_and_std(lab_sums, pixels)[1], split)
    mean, std = _mean_and_std(sums, pixels)
    return tuple(mean.tolist()), tuple(std.clamp_min(split.least).tolist())


def _add(sums: Float[Tensor, "2 c"], planes: Float[Tensor, "b c h w"]) -> None:
    planes = planes.double()
    sums[0] += planes.sum(dim=(0, 2, 3))
    sums[1] += planes.square_().sum(dim=(0, 2, 3))


def _mean_and_std(sums: Float[Tensor, "2 c"], pixels: int) -> tuple[Float[Tensor, "c"], Float[Tensor, "c"]]:
    mean = sums[0] / pixels
    return mean, (sums[1] / pixels - mean**2).clamp_min(0).sqrt()


def _check_colours(std: Float[Tensor, "3"], split: ColourSplit | LearnedSplit) -> None:
    if (std[1:] < COLOURLESS).all():
        first, rest = (name.upper() for name in split.names)
        raise InputError(
            f"split: {split.space} contrasts {first} with {rest}, but the images of this data set have no colour: "
            f"a and b of CIELAB deviate by {std[1]:.2f} and {std[2]:.2f} from their means, below {COLOURLESS}; "
            "take split: none, or a data set in colour"
        )
