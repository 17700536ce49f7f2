"""Views of large images on a CPU: each image gets those operators alone that it has.

`annulus.views.recipe` applies an operator to a batch, in all orders of a jitter at once. That pays while an image has
few pixels; of a large one each operator is worth a call of its own, with numbers in place of tensors. Where there is a
C compiler, one call of `large.c` makes the whole view, in less than a fourth of the time.
"""

import ctypes
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped, UInt8
from torch import Tensor

from annulus.device.compiled import library
from annulus.device.kernels import trusted
from annulus.device.threads import submit
from annulus.views import colour
from annulus.views.blur import DrawnBlur, kernel_size
from annulus.views.crop import CropBoxes, middle, resized
from annulus.views.gaussian import gaussian_blur

LARGE = 2**14  # pixels of an image, or of its view, from which a CPU makes each view by itself
PORTION = 4  # images that a thread takes at a time
SOURCE = Path(__file__).with_suffix(".c")


class Own(NamedTuple):
    """Operators of one image, in this order."""

    box: tuple[int, int, int, int]  # top, left, height, width
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
        [(*middle(*images.shape[2:], size), size, size)] * count
        if boxes is None
        else zip(*(field.tolist() for field in boxes), strict=True),
        mirrored.tolist(),
        [[]] * count if jitter is None else colour.in_order(jitter),
        grey.tolist(),
        [0.0] * count if blur is None else blur.sigma.where(blur.chosen, 0.0).tolist(),
        strict=True,
    )
    views, recipes = torch.empty(count, 3, size, size), [Own(*own) for own in fields]
    show = show_in_c if trusted(__name__, c_agrees, images.device) else show_by_operators

    def show_some(portion: range) -> None:
        for number in portion:
            show(images[number], recipes[number], views[number])

    for part in submit(show_some, count, PORTION):
        part.result()
    return views


def show_in_c(image: UInt8[Tensor, "3 h w"], own: Own, view: Float[Tensor, "3 s s"]) -> None:
    """The view by `large.c`, in floating point.

    Raises:
        MemoryError: when memory for a row of the image is short.
    """
    if image.stride()[::2] != (1, 3):  # not as JPEG's pixels lie
        image = image.contiguous()  # in planes
    top, left, height, width = own.box
    kinds, amounts = [kind for kind, _ in own.jitter], [amount for _, amount in own.jitter]
    done = library(SOURCE).annulus_view(
        ctypes.c_void_p(image[:, top:, left:].data_ptr()),
        ctypes.c_long(image.stride(1)),
        ctypes.c_long(image.stride(0)),
        *(height, width, own.mirrored, len(kinds)),
        (ctypes.c_int * len(kinds))(*kinds),
        (ctypes.c_float * len(kinds))(*amounts),
        own.grey,
        ctypes.c_float(own.sigma),
        *(kernel_size(view.shape[2]) // 2, view.shape[2]),
        ctypes.c_void_p(view.data_ptr()),
    )
    if not done:
        raise MemoryError(f"no memory for a view of {view.shape[2]} pixels a side")


def c_agrees(device: torch.device) -> bool:
    """True where `large.c` makes the views that operators make: boxes that shrink and grow, all orders, all blurs."""
    images = torch.randint(0, 256, (2, 3, 20, 15), generator=torch.Generator(device).manual_seed(0), dtype=torch.uint8)
    lying = images.contiguous(memory_format=torch.channels_last)
    jitters = permutations(
        [(colour.BRIGHTNESS, 1.3), (colour.CONTRAST, 1.4), (colour.SATURATION, 0.7), (colour.HUE, 0.1)]
    )
    for number, jitter in enumerate([(), *jitters]):
        box = (number % 5, number % 3, number % 15 + 1, number % 12 + 1)
        own = Own(box, number % 2 == 0, list(jitter[: number % 5]), number % 7 == 0, float(number % 4))
        side = 60 if number % 3 == 0 else 9  # kernels of 7 and of 3 pixels
        expected, *found = torch.empty(3, 3, side, side)
        show_by_operators(images[0].float(), own, expected)
        for image, view in zip((images[0], lying[0]), found, strict=True):
            show_in_c(image, own, view)
            if not torch.allclose(view, expected, rtol=0, atol=1e-3):
                return False
    return True


def show_by_operators(image: Shaped[Tensor, "3 h w"], own: Own, view: Float[Tensor, "3 s s"]) -> None:
    """The view by PyTorch's operators; a uint8 image's is resized in 8 bits."""
    seen, batch = resized(image, own.box, view.shape[2]), view[None]
    torch.div(seen.flip(2) if own.mirrored else seen, 255, out=view)
    for kind, amount in own.jitter:
        jitter_(batch, kind, amount)
    if own.grey:
        batch.copy_(colour.grayscale(batch))
    if own.sigma > 0:
        batch.copy_(gaussian_blur(batch, torch.tensor([own.sigma]), kernel_size(view.shape[2])))
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
