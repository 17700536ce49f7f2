"""Views of one image at a time: the transform of a data set, as a DataLoader's workers call it.

`annulus.views.recipe` draws the parameters of a batch by some 60 operations of PyTorch. For one image, the call of an
operation takes longer than its computation. So one call draws all random numbers here, and Python computes the same
parameters from them.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from annulus.errors import InputError
from annulus.views.blur import Blur
from annulus.views.colour import HUE, ColourJitter
from annulus.views.crop import TRIES, Crop, middle
from annulus.views.large import ImageRecipe, filler
from annulus.views.operators import describe
from annulus.views.pictures import pixels
from annulus.views.recipe import check_no_patches, check_size
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet

Numbers = Iterator[float]  # uniform in [0, 1), in the order of `annulus.views.recipe.draw_recipe`


@dataclass(frozen=True)
class TwoViews:
    """The transform of a data set: two views of an image, or `count`, float32 RGB in [0, 1].

    `views` is a set or a name in `annulus.views.SETS`, as in `augment`. An image is a picture of Pillow or a uint8
    tensor (3, height, width). A DataLoader's batch of them is a list of tensors (batch, 3, size, size), such as
    `SimCLR.loss` takes.

    The views are drawn by torch's global generator, as torchvision's are: a DataLoader seeds it anew for each worker
    and epoch, and `torch.manual_seed` fixes them. They equal `augment` of a batch of this one image.

    >>> import torch
    >>> from torchvision.datasets import FakeData
    >>> from annulus.views import TwoViews
    >>> images = FakeData(8, image_size=(3, 40, 40), transform=TwoViews("moco-v2", size=32))
    >>> views, labels = next(iter(torch.utils.data.DataLoader(images, batch_size=4)))
    >>> [each.shape for each in views]
    [torch.Size([4, 3, 32, 32]), torch.Size([4, 3, 32, 32])]

    Raises:
        InputError: for an unknown set or one with patches, a size or count below 1. On a call: for a value that is not
            an image; without a crop, for an image that is smaller than the view.
    """

    views: ViewSet | str
    size: int
    count: int = 2

    def __post_init__(self) -> None:
        object.__setattr__(self, "views", view_set(self.views))
        check_no_patches(self.views)
        check_size(self.size)
        if not isinstance(self.count, Integral) or self.count < 1:
            raise InputError(f"count {self.count!r}: give the number of views of an image, a whole number from 1 on")

    def __call__(self, image: Any) -> list[Float[Tensor, "3 s s"]]:
        image, random = _pixels(image), torch.default_generator
        fill_view, drawn_views = filler(image.device), torch.empty(self.count, 3, self.size, self.size)
        for view in drawn_views:
            fill_view(image, draw_one(self.views, *image.shape[1:], self.size, random), view)
            for operator in self.views.general:
                with torch.autocast("cpu", enabled=False):
                    view.copy_(operator.apply(view[None], operator.draw(1, random))[0])
        return [*drawn_views]


def _pixels(image: Any) -> UInt8[Tensor, "3 h w"]:
    """The image's RGB in bytes: of a picture of Pillow, or of a tensor, unchanged.

    Raises:
        InputError: for something else.
    """
    if hasattr(image, "convert"):
        return pixels(image)
    if not isinstance(image, Tensor) or image.dtype != torch.uint8 or image.ndim != 3 or image.shape[0] != 3:
        raise InputError(f"image is {describe(image)}: give a picture of Pillow, or uint8 RGB (3, height, width)")
    if image.device.type != "cpu":
        raise InputError(f"image is on {image.device}: give one on the CPU; `augment` takes batches on a GPU")
    return image


def draw_one(views: ViewSet, height: int, width: int, size: int, generator: torch.Generator) -> ImageRecipe:
    """Draws the parameters of one view; equals `draw_recipe` for a batch of one image, up to rounding."""
    crop, jitter, blur = views.crop, views.jitter, views.blur
    count = 2 + (crop is not None) * (2 * TRIES + 2) + (jitter is not None) * 9 + (blur is not None) * 2
    numbers = iter(torch.rand(count, generator=generator).tolist())
    return ImageRecipe(
        box=(*middle(height, width, size), size, size) if crop is None else _box(crop, height, width, numbers),
        mirrored=next(numbers) < views.flip,
        jitter=[] if jitter is None else _jitter(jitter, numbers),
        grey=next(numbers) < views.grayscale,
        sigma=0.0 if blur is None else _sigma(blur, numbers),
    )


def _between(low: float, high: float, share: float) -> float:
    return low + share * (high - low)


def _take(numbers: Numbers, count: int) -> list[float]:
    return [next(numbers) for _ in range(count)]


def _box(crop: Crop, height: int, width: int, numbers: Numbers) -> tuple[int, int, int, int]:
    """Top, left, height and width of a box, as `Crop.draw`."""
    areas, aspects = _take(numbers, TRIES), _take(numbers, TRIES)
    down, across = _take(numbers, 2)
    lowest, highest = math.log(crop.ratio_min), math.log(crop.ratio_max)
    for share, place in zip(areas, aspects, strict=True):
        area = _between(crop.scale_min, crop.scale_max, share) * height * width
        aspect = math.exp(_between(lowest, highest, place))
        high, wide = round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))
        if 0 < high <= height and 0 < wide <= width:
            return int(down * (height - high + 1)), int(across * (width - wide + 1)), high, wide
    high, wide = map(int, crop.central_box(*torch.tensor([[height], [width]])))
    return (height - high) // 2, (width - wide) // 2, high, wide


def _jitter(jitter: ColourJitter, numbers: Numbers) -> list[tuple[int, float]]:
    """Pairs (operator, amount) in their order, as `ColourJitter.draw`."""
    amounts = []
    for reach, share in zip((jitter.brightness, jitter.contrast, jitter.saturation), _take(numbers, 3), strict=True):
        reach *= jitter.strength
        amounts.append(_between(max(0.0, 1 - reach), 1 + reach, share))
    order = _take(numbers, 3)
    operators = [(kind, amounts[kind]) for kind in sorted(range(3), key=order.__getitem__)]
    hue = jitter.hue * jitter.strength
    turn, place, chosen = _take(numbers, 3)
    # torch.randint takes the remainder of the same 24 bits.
    operators.insert(int(place * 2**24) % 4, (HUE, _between(-hue, hue, turn)))
    return operators if chosen < jitter.probability else []


def _sigma(blur: Blur, numbers: Numbers) -> float:
    """Sigma of a blur, as `Blur.draw`; 0: without blur."""
    chosen, share = _take(numbers, 2)
    return _between(blur.sigma_min, blur.sigma_max, share) if chosen < blur.probability else 0.0
