"""Views of large images on a CPU: each image gets those operators alone that it has.

`annulus.views.recipe` applies an operator to a batch, in all orders of a jitter at once. That pays while an image has
few pixels; of a large one each operator is worth a call of its own, with numbers in place of tensors.
"""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from annulus.device.threads import submit
from annulus.views import colour
from annulus.views.blur import DrawnBlur, kernel_size
from annulus.views.crop import CropBoxes, center_crop, resized
from annulus.views.gaussian import gaussian_blur

PORTION = 4  # images that a thread takes at a time


class Own(NamedTuple):
    """Operators of one image, in this order."""

    box: tuple[int, int, int, int] | None  # top, left, height, width; None: the middle
    mirrored: bool
    jitter: list[tuple[int, float]]  # the operators by `annulus.views.colour`'s numbers, and how much of each
    grey: bool
    sigma: float  # of its blur; 0: none


def by_images(
    images: UInt8[Tensor, "b 3 h w"],
    boxes: CropBoxes | None,
    mirrored: Bool[Tensor, "b"],
    jitter: colour.DrawnJitter | None,
    grey: Bool[Tensor, "b"],
    blur: DrawnBlur | None,
    size: int,
) -> Float[Tensor, "b 3 {size} {size}"]:
    """The views of a recipe, all of which is on the CPU. Threads take a few images each."""
    count = len(images)
    fields = zip(
        [None] * count if boxes is None else zip(*(field.tolist() for field in boxes), strict=True),
        mirrored.tolist(),
        [[]] * count if jitter is None else colour.in_order(jitter),
        grey.tolist(),
        [0.0] * count if blur is None else blur.sigma.where(blur.chosen, 0.0).tolist(),
        strict=True,
    )
    views, recipes = torch.empty(count, 3, size, size), [Own(*own) for own in fields]

    def show_some(portion: range) -> None:
        for number in portion:
            show(images[number], recipes[number], views[number, None])

    for part in submit(show_some, count, PORTION):
        part.result()
    return views


def show(image: UInt8[Tensor, "3 h w"], own: Own, view: Float[Tensor, "1 3 s s"]) -> None:
    """Write the view of one image, values in [0, 1]."""
    size = view.shape[3]
    seen = center_crop(image[None], size)[0] if own.box is None else resized(image, own.box, size)
    torch.div(seen.flip(2) if own.mirrored else seen, 255, out=view[0])
    for kind, amount in own.jitter:
        jitter_(view, kind, amount)
    if own.grey:
        view.copy_(colour.grayscale(view))
    if own.sigma > 0:
        view.copy_(gaussian_blur(view, torch.tensor([own.sigma]), kernel_size(size)))
    view.clamp_(max=1)  # weights that sum to one only up to rounding can step past it


def jitter_(view: Float[Tensor, "1 3 h w"], kind: int, amount: float) -> None:
    """One operator of a jitter, as `annulus.views.colour` defines it for a batch."""
    match kind:
        case colour.HUE:
            colour.turn_hue_(view, torch.tensor([amount]))
            return
        case colour.BRIGHTNESS:
            view.mul_(amount)
        case colour.CONTRAST:
            mean = colour.luma(view).mean()  # before the view changes
            view.mul_(amount).add_(mean, alpha=1 - amount)
        case colour.SATURATION:
            torch.lerp(colour.luma(view)[:, None], view, amount, out=view)
        case _:
            raise AssertionError(kind)
    if amount > 1:  # a mixture of two colours needs no clamp
        view.clamp_(0, 1)
