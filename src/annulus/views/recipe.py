"""Views: random augmentations of whole batches, each image with its own parameters.

    crop      which part of the image: random resized crop, flip
    colour    jitter, greyscale
    blur      Gaussian blur

All parameters of a batch are drawn before any pixel is touched, so the order in which images are then
worked on, and in how large chunks, changes nothing but the speed.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import torch
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from annulus.config.images import ViewSetParams
from annulus.views.blur import Blur, draw_blur, gaussian_blur, kernel_size
from annulus.views.colour import Jitter, draw_jitter, grayscale, jitter_
from annulus.views.crop import Boxes, center_crop, draw_boxes, resized_crop

# Pixels worked on at a time: on a CPU what, with temporaries, a core's L2 cache about holds; on a GPU a
# bound on memory.
CPU_CHUNK, GPU_CHUNK = 2**16, 2**24


class Recipe(NamedTuple):
    """The operators that each image of a batch gets, in this order. None: no image gets this one."""

    boxes: Boxes | None
    mirrored: Bool[Tensor, "b"]
    jitter: Jitter | None
    grey: Bool[Tensor, "b"]
    blur: Blur | None


def augment(
    images: UInt8[Tensor, "b 3 h w"],
    views: ViewSetParams,
    size: int,
    generator: torch.Generator,
    part: slice | None = None,
) -> Float[Tensor, "views 3 {size} {size}"]:
    """One random view of each image, values in [0, 1]; with `part`, only these rows of what it would be without.

    The generator always draws for all images, so processes that share a batch go on with the same randomness.

    Random resized crop (without one: the middle size x size pixels), flip, colour jitter, greyscale, blur:
    torchvision's usual contrastive recipe. The generator lives on the images' device or on the CPU; there it
    draws the same views for every device, and a GPU need not be waited for.

    Raises:
        InputError: without a crop, when the images are smaller than the view.
    """
    _, _, height, width = images.shape
    recipe = draw_recipe(views, len(images), height, width, generator)
    if part is not None:
        images, recipe = images[part], pick(recipe, part)
    count = len(images)
    order = torch.arange(count) if recipe.jitter is None else recipe.jitter.hue_after.argsort()

    chunk = CPU_CHUNK if images.device.type == "cpu" else GPU_CHUNK
    step = max(1, chunk // max(height * width, size * size))
    result = torch.empty(count, 3, size, size, device=images.device)
    # A training step's autocast would resample in bfloat16, whose 8 bits lose what a pixel holds.
    with torch.autocast(images.device.type, enabled=False):
        for start in range(0, count, step):
            rows = order[start : start + step]
            there = rows.to(images.device, non_blocking=True)
            result.index_copy_(0, there, apply_recipe(images.index_select(0, there), pick(recipe, rows), size))
    return result


def draw_recipe(views: ViewSetParams, count: int, height: int, width: int, generator: torch.Generator) -> Recipe:
    """Draw the parameters of `count` views of images of height x width pixels."""

    def chosen(probability: float) -> Bool[Tensor, "b"]:
        return torch.rand(count, generator=generator, device=generator.device) < probability

    return Recipe(
        boxes=views.crop and draw_boxes(views.crop, height, width, count, generator),
        mirrored=chosen(views.flip),
        jitter=views.jitter and draw_jitter(views.jitter, count, generator),
        grey=chosen(views.grayscale),
        blur=views.blur and draw_blur(views.blur, count, generator),
    )


def apply_recipe(images: UInt8[Tensor, "b 3 h w"], recipe: Recipe, size: int) -> Float[Tensor, "b 3 {size} {size}"]:
    """The views that a recipe describes; with jitter, rows come sorted by when their hue turns (`jitter_`)."""
    if recipe.boxes is None:
        view = center_view(images, size)
        replace_(view, recipe.mirrored, lambda some: some.flip(3))
    else:
        view = resized_crop(images, recipe.boxes, recipe.mirrored, size)
    if recipe.jitter is not None:
        jitter_(view, recipe.jitter)
    replace_(view, recipe.grey, grayscale)
    if recipe.blur is not None:
        sigma = recipe.blur.sigma[recipe.blur.chosen]
        replace_(view, recipe.blur.chosen, lambda some: gaussian_blur(some, sigma, kernel_size(size)))
    return view.clamp_(max=1)  # weights that sum to one only up to rounding can step past it


def replace_(view: Float[Tensor, "b c h w"], chosen: Bool[Tensor, "b"], operator: Callable[[Tensor], Tensor]) -> None:
    """Put operator(image) in the place of each chosen image; the others cost nothing."""
    rows = chosen.nonzero().squeeze(1).to(view.device, non_blocking=True)
    view.index_copy_(0, rows, operator(view.index_select(0, rows)))


Parameters = TypeVar("Parameters", Recipe, Boxes, Jitter, Blur, Tensor, None)


def pick(parameters: Parameters, rows: Int[Tensor, "r"] | slice) -> Parameters:
    """The parameters of some rows, on the host, where which rows an operator touches is decided."""
    if parameters is None:
        return None
    if isinstance(parameters, Tensor):
        return parameters[rows].cpu()
    return type(parameters)(*(pick(field, rows) for field in parameters))


def center_view(images: UInt8[Tensor, "b c h w"], size: int) -> Float[Tensor, "b c {size} {size}"]:
    """The evaluation view: the middle size x size pixels, values in [0, 1].

    Raises:
        InputError: when the images are smaller than the view.
    """
    return center_crop(images, size).float().div_(255)
