"""Colour jitter and greyscale of whole batches, each image with its own factors and its own order.

Images are RGB in [0, 1]. Every operator equals torchvision's operator of the same name on equal parameters.
As in torch, a function whose name ends in _ works in place.
"""

from dataclasses import dataclass
from typing import Annotated, NamedTuple

import torch
from annotated_types import Ge, Le
from jaxtyping import Float, Int
from torch import Tensor

from annulus.device.copies import to_device
from annulus.errors import InputError
from annulus.settings import Fraction
from annulus.views.operators import Operator, View
from annulus.views.parameters import pick

BRIGHTNESS, CONTRAST, SATURATION, HUE = 0, 1, 2, 3  # the first three are kinds of blend
NEVER = 4  # hue_after of an image that is not jittered


def luma(images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b h w"]:
    """Grey value of each pixel: ITU-R BT.601, with torchvision's rounding of the weights (they sum to 0.9999)."""
    red, green, blue = images.unbind(dim=1)
    return (red * 0.2989).add_(green, alpha=0.587).add_(blue, alpha=0.114)


def grayscale(images: Float[Tensor, "b 3 h w"]) -> Float[Tensor, "b 3 h w"]:
    """Each pixel's grey value in all three channels."""
    return luma(images)[:, None].expand_as(images)


def brightness(images: Float[Tensor, "b 3 h w"], factor: Float[Tensor, "b"]) -> Float[Tensor, "b 3 h w"]:
    """Blend with black: factor 0 is black, 1 the image itself."""
    return blend_(images.clone(), factor, torch.zeros_like(factor), torch.zeros_like(factor))


def contrast(images: Float[Tensor, "b 3 h w"], factor: Float[Tensor, "b"]) -> Float[Tensor, "b 3 h w"]:
    """Blend with the image's mean grey: factor 0 is that grey everywhere, 1 the image itself."""
    return blend_(images.clone(), factor, 1 - factor, torch.zeros_like(factor))


def saturation(images: Float[Tensor, "b 3 h w"], factor: Float[Tensor, "b"]) -> Float[Tensor, "b 3 h w"]:
    """Blend with the greyscale image: factor 0 is greyscale, 1 the image itself."""
    return blend_(images.clone(), factor, torch.zeros_like(factor), 1 - factor)


def hue(images: Float[Tensor, "b 3 h w"], turn: Float[Tensor, "b"]) -> Float[Tensor, "b 3 h w"]:
    """Turns the hue, in whole turns within [-1/2, 1/2]: 1/3 takes red to green, green to blue, blue to red."""
    return turn_hue_(images.clone(), turn)


def blend_(
    images: Float[Tensor, "b 3 h w"],
    factor: Float[Tensor, "b"],
    mean_share: Float[Tensor, "b"],
    grey_share: Float[Tensor, "b"],
) -> Float[Tensor, "b 3 h w"]:
    """factor * image + mean_share * its mean grey + grey_share * its greyscale, clamped to [0, 1].

    The shares select brightness, contrast or saturation, so one pass serves images with different orders of the three.
    """
    _check_no_gradient(images)
    factor, mean_share, grey_share = (share[:, None, None] for share in (factor, mean_share, grey_share))
    grey = luma(images)
    mean = grey.mean(dim=(1, 2), keepdim=True)
    grey.mul_(grey_share).add_(mean.mul_(mean_share))
    return torch.addcmul(grey[:, None], images, factor[:, None], out=images).clamp_(0, 1)


def turn_hue_(images: Float[Tensor, "b 3 h w"], turn: Float[Tensor, "b"]) -> Float[Tensor, "b 3 h w"]:
    """`hue`, in place.

    HSV keeps a pixel's largest and smallest channel V and m, and places it on a hexagon around grey. Its distance from
    red, in sixths of a turn, is (G + B - R + V - 2m) / (V - m) in all cases: towards green if G > B, else towards
    blue. On the way back a channel falls from V to m while the hue moves away from it, from one to two sixths.

    Source: Smith 1978, "Color gamut transform pairs". A test compares the closed form with torchvision.
    """
    _check_no_gradient(images)
    red, green, blue = images.unbind(dim=1)
    largest, smallest = torch.maximum(red, green), torch.minimum(red, green)
    torch.maximum(largest, blue, out=largest)
    torch.minimum(smallest, blue, out=smallest)
    chroma = largest - smallest
    sixfold = chroma * 6
    beyond = largest + chroma

    angle = (green + blue).sub_(red).add_(largest).sub_(smallest, alpha=2).copysign_(green - blue)
    angle.div_(sixfold.clamp_min(1e-12))  # grey: 0 / 1e-12; its chroma of 0 hides the hue below
    angle.add_(turn[:, None, None] + 1).frac_()  # within [0, 1); red 0, green 1/3, blue 2/3

    # Red is measured from cyan, its opposite, so its interval does not wrap around 0.
    for plane, centre in ((red, 1 / 2), (green, 1 / 3), (blue, 2 / 3)):
        torch.sub(angle, centre, out=plane)
    images.abs_()
    torch.addcmul(smallest - chroma, sixfold, red, out=red)
    green_and_blue = images[:, 1:]
    torch.addcmul(beyond[:, None], sixfold[:, None], green_and_blue, value=-1, out=green_and_blue)
    return torch.clamp(images, smallest[:, None], largest[:, None], out=images)


def _check_no_gradient(images: Float[Tensor, "b 3 h w"]) -> None:
    if images.requires_grad and torch.is_grad_enabled():
        raise InputError("colours change in place, without a gradient, and these images require one; detach them")


class DrawnJitter(NamedTuple):
    """Drawn colour jitter: three blends in the order of their columns, and a turn of the hue between them."""

    factor: Float[Tensor, "b 3"]
    kind: Int[Tensor, "b 3"]  # a permutation of BRIGHTNESS, CONTRAST, SATURATION
    turn: Float[Tensor, "b"]
    hue_after: Int[Tensor, "b"]  # number of blends before the hue: 0 to 3; NEVER: the image is not jittered


def in_order(jitter: DrawnJitter) -> list[list[tuple[int, float]]]:
    """Each image's pairs (operator, amount) in their order; empty for an image that is not jittered."""
    jitters = []
    fields = (jitter.kind, jitter.factor, jitter.turn, jitter.hue_after)
    for kinds, factors, turn, hue_after in zip(*(field.tolist() for field in fields), strict=True):
        operators = list(zip(kinds, factors, strict=True))
        operators.insert(hue_after, (HUE, turn))
        jitters.append([] if hue_after == NEVER else operators)
    return jitters


def hue_ends(hue_after: Int[Tensor, "b"]) -> list[int]:
    """Counts the images that turn their hue after at most 0, 1, 2 and 3 blends; the last count is all jittered ones."""
    return hue_after.bincount(minlength=NEVER + 1).cumsum(dim=0)[:NEVER].tolist()


def jitter_(images: Float[Tensor, "b 3 h w"], jitter: DrawnJitter, ends: list[int]) -> Float[Tensor, "b 3 h w"]:
    """Applies a drawn jitter to images that are sorted by `hue_after`; `ends` are its `hue_ends`.

    In this order the images that turn their hue after a blend are one slice, and the others are one slice.
    """
    rest = 1 - jitter.factor
    shares = (jitter.factor, rest * (jitter.kind == CONTRAST), rest * (jitter.kind == SATURATION))
    jittered = ends[-1]
    for place in range(3):
        if ends[place] < jittered:
            before_hue = slice(ends[place], jittered)
            blend_(images[before_hue], *(share[before_hue, place] for share in shares))
    if jittered:
        turn_hue_(images[:jittered], jitter.turn[:jittered])
    for place in range(3):
        if ends[place]:
            behind_hue = slice(ends[place])
            blend_(images[behind_hue], *(share[behind_hue, place] for share in shares))
    return images


@dataclass(frozen=True, kw_only=True)
class ColourJitter(Operator):
    """Colour jitter as in torchvision: factors in [max(0, 1 - x), 1 + x], hue in [-x, x] turns.

    The strength multiplies all four x (Tian et al. 2020, arXiv:2005.10243, Figure 12). All 24 orders are equally
    likely.

    >>> import torch
    >>> from annulus.views import ColourJitter
    >>> jitter = ColourJitter(probability=0.8, brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1)
    >>> jitter(torch.rand(4, 3, 32, 32), torch.Generator().manual_seed(0)).shape
    torch.Size([4, 3, 32, 32])

    Raises:
        InputError: if hue times strength is more than half a turn.
    """

    probability: Fraction
    brightness: Annotated[float, Ge(0), Le(1000)]
    contrast: Annotated[float, Ge(0), Le(1000)]
    saturation: Annotated[float, Ge(0), Le(1000)]
    hue: Annotated[float, Ge(0), Le(0.5)]
    strength: Annotated[float, Ge(0), Le(1000)] = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hue * self.strength > 0.5:
            raise InputError(
                f"hue {self.hue:g} times strength {self.strength:g} is more than half a turn of the hue; "
                "lower one of them"
            )

    def draw(self, count: int, generator: torch.Generator) -> DrawnJitter:
        """Draws one jitter per image: any order of the blends, with the hue at any of four places around them."""
        reach = torch.tensor([self.brightness, self.contrast, self.saturation]) * self.strength
        hue = self.hue * self.strength
        low = (1 - reach).clamp_min(0)
        by_kind = low + torch.rand(count, 3, generator=generator) * (1 + reach - low)
        kind = torch.rand(count, 3, generator=generator).argsort(dim=1)
        turn = torch.empty(count).uniform_(-hue, hue, generator=generator)
        hue_after = torch.randint(4, (count,), generator=generator)
        chosen = torch.rand(count, generator=generator) < self.probability
        return DrawnJitter(by_kind.gather(1, kind), kind, turn, hue_after.where(chosen, NEVER))

    def apply(self, view: View, drawn: DrawnJitter) -> View:
        """Returns the views, each jittered with its own factors in its own order."""
        order = drawn.hue_after.argsort()
        rows, *fields = to_device([order, *pick(drawn, order)], view.device)
        result = jitter_(view.index_select(0, rows), DrawnJitter(*fields), hue_ends(drawn.hue_after))
        return torch.empty_like(result).index_copy_(0, rows, result)
