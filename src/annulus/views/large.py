"""Views of large images on a CPU, one image at a time.

`annulus.views.recipe` applies an operator to a batch, in all orders of a jitter at once. This is fast for images of few
pixels. For a large image, each operator that it needs is one call, with numbers in place of tensors. With a C compiler,
one call of `large.c` computes the whole view, in less than a fourth of the time.
"""

import ctypes
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Shaped, UInt8
from torch import Tensor

from annulus.device.c_library import library
from annulus.device.threads import submit
from annulus.device.trust import trusted
from annulus.views import colour
from annulus.views.blur import DrawnBlur, kernel_size
from annulus.views.crop import CropBoxes, middle, resized
from annulus.views.gaussian import gaussian_blur

LARGE = 2**14  # pixels of an image, or of its view, from which a CPU computes each view by itself
PORTION = 4  # images that a thread takes at a time
SOURCE = Path(__file__).with_suffix(".c")

Fill = Callable[[Tensor, "ImageRecipe", Tensor], None]


class ImageRecipe(NamedTuple):
    """The operators of one image, in this order."""

    box: tuple[int, int, int, int]  # top, left, height, width
    mirrored: bool
    jitter: list[tuple[int, float]]  # operators (numbers of `annulus.views.colour`) and their amounts
    grey: bool
    sigma: float  # of its blur; 0: without blur


def by_images(
    images: UInt8[Tensor, "b 3 h w"],
    boxes: CropBoxes | None,
    mirrored: Bool[Tensor, "b"],
    jitter: colour.DrawnJitter | None,
    grey: Bool[Tensor, "b"],
    blur: DrawnBlur | None,
    size: int,
) -> Float[Tensor, "b 3 {size} {size}"]:
    """The views of a recipe on the CPU. Threads take a few images each."""
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
    views, recipes = torch.empty(count, 3, size, size), [ImageRecipe(*image_fields) for image_fields in fields]
    fill_view = filler(images.device)

    def fill_views(portion: range) -> None:
        for number in portion:
            fill_view(images[number], recipes[number], views[number])

    for part in submit(fill_views, count, PORTION):
        part.result()
    return views


def filler(device: torch.device) -> Fill:
    """Returns the function that fills a view: `large.c` if it is trusted, else PyTorch's operators."""
    return view_in_c if trusted(__name__, c_agrees, device) else view_by_operators


def view_in_c(image: UInt8[Tensor, "3 h w"], recipe: ImageRecipe, view: Float[Tensor, "3 s s"]) -> None:
    """Fills the view by `large.c`, in floating point.

    Raises:
        MemoryError: if memory for a row of the image is short.
    """
    if image.stride()[::2] not in ((1, 3), (1, 4)):  # neither channels last, as decoded JPEG, nor Pillow's own memory
        image = image.contiguous()  # in planes
    top, left, height, width = recipe.box
    kinds, amounts = [kind for kind, _ in recipe.jitter], [amount for _, amount in recipe.jitter]
    done = library(SOURCE).annulus_view(
        ctypes.c_void_p(image[:, top:, left:].data_ptr()),
        ctypes.c_long(image.stride(1)),
        ctypes.c_long(image.stride(0)),
        image.stride(2),
        *(height, width, recipe.mirrored, len(kinds)),
        (ctypes.c_int * len(kinds))(*kinds),
        (ctypes.c_float * len(kinds))(*amounts),
        recipe.grey,
        ctypes.c_float(recipe.sigma),
        *(kernel_size(view.shape[2]) // 2, view.shape[2]),
        ctypes.c_void_p(view.data_ptr()),
    )
    if not done:
        raise MemoryError(f"no memory for a view of {view.shape[2]} pixels a side")


def c_agrees(device: torch.device) -> bool:
    """Returns True if `large.c` and the operators compute the same views: shrunk and grown boxes, all orders, blurs."""
    images = torch.randint(0, 256, (2, 3, 20, 15), generator=torch.Generator(device).manual_seed(0), dtype=torch.uint8)
    channels_last = images.contiguous(memory_format=torch.channels_last)
    in_fours = torch.nn.functional.pad(images.permute(0, 2, 3, 1), (0, 1), value=255)[..., :3].permute(0, 3, 1, 2)
    jitters = permutations(
        [(colour.BRIGHTNESS, 1.3), (colour.CONTRAST, 1.4), (colour.SATURATION, 0.7), (colour.HUE, 0.1)]
    )
    for number, jitter in enumerate([(), *jitters]):
        box = (number % 5, number % 3, number % 15 + 1, number % 12 + 1)
        recipe = ImageRecipe(box, number % 2 == 0, list(jitter[: number % 5]), number % 7 == 0, float(number % 4))
        side = 60 if number % 3 == 0 else 9  # kernels of 7 and of 3 pixels
        expected, *views = torch.empty(4, 3, side, side)
        view_by_operators(images[0].float(), recipe, expected)
        for image, view in zip((images[0], channels_last[0], in_fours[0]), views, strict=True):
            view_in_c(image, recipe, view)
            if not torch.allclose(view, expected, rtol=0, atol=1e-3):
                return False
    return True


def view_by_operators(image: Shaped[Tensor, "3 h w"], recipe: ImageRecipe, view: Float[Tensor, "3 s s"]) -> None:
    """Fills the view by PyTorch's operators; a uint8 image is resized in 8 bits."""
    crop, batch = resized(image, recipe.box, view.shape[2]), view[None]
    torch.div(crop.flip(2) if recipe.mirrored else crop, 255, out=view)
    for kind, amount in recipe.jitter:
        jitter_(batch, kind, amount)
    if recipe.grey:
        batch.copy_(colour.grayscale(batch))
    if recipe.sigma > 0:
        batch.copy_(gaussian_blur(batch, torch.tensor([recipe.sigma]), kernel_size(view.shape[2])))
    view.clamp_(max=1)  # the weights sum to 1 up to rounding, so a value can exceed 1


def jitter_(view: Float[Tensor, "1 3 h w"], kind: int, amount: float) -> None:
    """Applies one operator of a jitter; `annulus.views.colour` defines it for a batch."""
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
