"""Views: random augmentations of whole batches, each image with its own parameters.

    crop      random resized crop, flip
    colour    jitter, greyscale
    blur      Gaussian blur

These have fast paths: chunks of a batch, large images one by one on a CPU, kernels on a GPU. Further operators of a
view set (`annulus.views.operators`) change the finished views.

All parameters of a batch are drawn before the first pixel is computed. So order and size of the chunks change the
speed alone.
"""

from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from annulus.device.device import threads
from annulus.device.trust import trusted
from annulus.errors import InputError
from annulus.files.store import pieces
from annulus.views.batch_share import BatchShare
from annulus.views.blur import DrawnBlur, kernel_size
from annulus.views.colour import NEVER, DrawnJitter, grayscale, hue_ends, jitter_
from annulus.views.crop import CropBoxes, center_boxes, center_crop, middle, resized_crop
from annulus.views.gaussian import gaussian_blur
from annulus.views.large import LARGE, by_images
from annulus.views.operators import check_generator, describe
from annulus.views.parameters import numbered, on, pick
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet

# Pixels of a chunk. On a CPU a chunk and its temporaries about fill a core's L2 cache; on a GPU it bounds memory.
# Several threads share each operation, and starting them costs half the time of a core's part.
CPU_CHUNK, GPU_CHUNK = 2**16, 2**24

# The images that get an operator: a mask as drawn, then their numbers (`numbered`).
Chosen = Bool[Tensor, "b"] | Int[Tensor, "_"]


class Recipe(NamedTuple):
    """Drawn parameters of a batch's views, in the order of application. None: the operator is off."""

    boxes: CropBoxes | None
    mirrored: Chosen
    jitter: DrawnJitter | None
    grey: Chosen
    blur: DrawnBlur | None


class Chunk(NamedTuple):
    """Some rows of a batch, and their recipe."""

    rows: Int[Tensor, "r"]
    recipe: Recipe


def augment(
    images: UInt8[Tensor, "v 3 h w"],
    views: ViewSet | str,
    size: int,
    generator: torch.Generator,
    share: BatchShare | None = None,
    sizes: Int[Tensor, "b 2"] | None = None,
) -> Float[Tensor, "v 3 {size} {size}"]:
    """Draws one random view of each image, float32 RGB in [0, 1] on the images' device.

    `views` is a set or a name in `annulus.views.SETS`. The order is torchvision's usual contrastive recipe: random
    resized crop (without a crop: the middle size x size pixels), flip, colour jitter, greyscale, blur; then RandAugment
    and the set's further operators. Sets with patches are for `draw_views`.

    >>> import torch
    >>> from annulus.views import augment
    >>> images = torch.randint(0, 256, (8, 3, 40, 40), dtype=torch.uint8)
    >>> generator = torch.Generator().manual_seed(0)
    >>> first, second = (augment(images, "moco-v2", 32, generator) for _ in range(2))
    >>> first.shape, bool((first == second).all())
    (torch.Size([8, 3, 32, 32]), False)

    The generator is on the CPU, so every device computes the same views. In a DataLoader's workers, `TwoViews` makes
    views of one image at a time, by torch's own generator. Workers would copy a generator of the data set, and draw the
    same views in every epoch.

    With `share`, the images are some rows of a batch. The generator draws for the whole batch, so all processes keep
    equal random states, and the views equal those rows of one process's views.

    If the images differ in size, `sizes` are the heights and widths of the whole batch, on the CPU. Each image lies in
    the upper left corner.

    Raises:
        InputError: unless the images are a uint8 batch; for an unknown set or a set with patches, a size below 1, sizes
            that the images do not have, or a generator that is not on the CPU; without a crop, if the images are
            smaller than the view.
    """
    check_images(images)
    check_size(size)
    check_generator(generator)
    views = view_set(views)
    check_no_patches(views)
    batch = len(images) if share is None else share.batch
    if sizes is not None:
        check_sizes(sizes, images, batch, None if share is None else share.rows)
        images, sizes = _padded(images, sizes), sizes.long()
    height, width = images.shape[2:]
    squares = torch.tensor([[height, width]]).expand(batch, 2)
    with threads(1):  # more threads take longer to start than to draw, and then spin beside a GPU's queue
        recipe = draw_recipe(views, squares if sizes is None else sizes, generator)
        drawn = [operator.draw(batch, generator) for operator in views.general]
    if sizes is not None and recipe.boxes is None:
        recipe = recipe._replace(boxes=center_boxes(sizes, size))
    if share is not None:
        recipe, drawn = pick(recipe, share.rows), [pick(parameters, share.rows) for parameters in drawn]
    if images.is_cuda and trusted("annulus.views.kernels", kernels_agree, images.device):
        view = _by_kernels(images, recipe, size)
    elif images.device.type == "cpu" and max(height * width, size * size) >= LARGE:
        view = by_images(images, *recipe, size)
    else:
        view = by_chunks(images, recipe, size)
    with torch.autocast(images.device.type, enabled=False):
        for operator, parameters in zip(views.general, drawn, strict=True):
            view = operator.apply(view, parameters)
    return view


def _padded(images: UInt8[Tensor, "v 3 _h _w"], sizes: Int[Tensor, "b 2"]) -> UInt8[Tensor, "v 3 h w"]:
    """Pads the images to the largest sizes of the whole batch, which decide between 8 bits and floating point."""
    if len(sizes) == 0:
        return images
    high, wide = (max(0, most - own) for most, own in zip(sizes.amax(dim=0).tolist(), images.shape[2:], strict=True))
    return F.pad(images, (0, wide, 0, high)) if high or wide else images


def check_images(images: Tensor) -> None:
    """Raises InputError unless the images are uint8 RGB of shape (batch, 3, height, width).

    Raises:
        InputError: with type and shape.
    """
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise InputError(
            f"images are {describe(images)}: give uint8 RGB of shape (batch, 3, height, width); "
            "of floats in [0, 1], (255 * images).round().to(torch.uint8)"
        )


def check_sizes(sizes: Tensor, images: Tensor, batch: int, rows: Tensor | None = None) -> None:
    """Checks the heights and widths of a batch; `rows` are the images' rows in the batch.

    Raises:
        InputError: unless there are two integers on the CPU for each image of the batch, from 1 to the images' sizes.
    """
    known = isinstance(sizes, Tensor) and sizes.dtype in (torch.int32, torch.int64) and not sizes.is_cuda
    if not known or sizes.shape != (batch, 2):
        raise InputError(
            f"sizes are {describe(sizes)}: give int64 of shape ({batch}, 2) on the CPU, height and width of each image"
        )
    own = sizes if rows is None else sizes[rows]
    if len(own) and not (own.min() >= 1 and (own <= torch.tensor(images.shape[2:])).all()):
        raise InputError(
            f"sizes from {own.amin(dim=0).tolist()} to {own.amax(dim=0).tolist()} (height, width) of images "
            f"{tuple(images.shape[2:])}: give sizes from 1 to the images' own"
        )


def check_size(size: int) -> None:
    """Raises InputError unless the side of a view is a whole number, 1 or more.

    Raises:
        InputError: with the size.
    """
    if not isinstance(size, Integral) or size < 1:
        raise InputError(f"size {size!r}: give the side of a view in pixels, a whole number from 1 on")


def check_no_patches(views: ViewSet) -> None:
    """Raises InputError if the set has patches.

    Raises:
        InputError: with the function that draws them.
    """
    if views.patches is not None:
        raise InputError("a set with patches makes several views of each image together; call annulus.views.draw_views")


def by_chunks(images: UInt8[Tensor, "b 3 h w"], recipe: Recipe, size: int) -> Float[Tensor, "b 3 {size} {size}"]:
    """Computes the views of a recipe by chunks of images. The recipe is on the CPU; images on a CPU are not large."""
    count, _, height, width = images.shape
    order = torch.arange(count) if recipe.jitter is None else recipe.jitter.hue_after.argsort()

    recipe, cpu = pick(recipe, order), images.device.type == "cpu"
    # Channels last means decoded JPEG: then threads decode the next batch meanwhile, and this one needs few of them.
    sharing = 1 if images.stride(1) == 1 else torch.get_num_threads()
    chunk = CPU_CHUNK if sharing == 1 else 2 * sharing * CPU_CHUNK
    step = max(1, (chunk if cpu else GPU_CHUNK) // max(height * width, size * size))
    result = torch.empty(count, 3, size, size, device=images.device)

    # A training step's autocast would resample in bfloat16, whose 8 bits are too few for a pixel.
    with torch.autocast(images.device.type, enabled=False), threads(sharing):
        for start in range(0, count, step):
            part = slice(start, start + step)
            rows, some = order[part], pick(recipe, part)
            ends = [] if some.jitter is None else hue_ends(some.jitter.hue_after)
            rows, some = on(Chunk(rows, numbered(some)), images.device)
            result.index_copy_(0, rows, apply_recipe(images.index_select(0, rows), some, ends, size))
    return result


def _by_kernels(images: UInt8[Tensor, "b 3 h w"], recipe: Recipe, size: int) -> Float[Tensor, "b 3 {size} {size}"]:
    """The views of a recipe on a GPU. Kernels read each image's parameters; only the blur needs chosen numbers."""
    from annulus.views import kernels  # here, since it needs Triton

    if recipe.boxes is None:
        place = middle(*images.shape[2:], size)
        box = (*place, size, size)
        recipe = recipe._replace(boxes=CropBoxes(*(torch.full((len(images),), value) for value in box)))
    boxes, mirrored, jitter, grey, blur = on(recipe._replace(blur=numbered(recipe.blur)), images.device)
    with torch.cuda.device_of(images):  # Triton starts kernels on the current device
        view = kernels.view(images, boxes, mirrored, jitter, grey, size)
    return view if blur is None else blur_(view, blur, size).clamp_(max=1)


def kernels_agree(device: torch.device) -> bool:
    """Returns True if the kernels and a CPU compute the same views: shrunk and grown boxes, all orders of operators."""
    count, generator = 10, torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 20, 15), generator=generator, dtype=torch.uint8)
    order = torch.arange(count)
    boxes = CropBoxes(order % 5, order % 3, order % 16 + 1, order % 13 + 1)
    factors, turn = torch.rand(count, 3, generator=generator) * 2, torch.rand(count, generator=generator) - 0.5
    kind = torch.rand(count, 3, generator=generator).argsort(dim=1)
    jitter = DrawnJitter(factors, kind, turn, order % (NEVER + 1))
    for some in (jitter, None):
        recipe = Recipe(boxes, order % 2 == 0, some, order % 7 == 0, None)
        views, expected = _by_kernels(images.to(device), recipe, 9).cpu(), by_chunks(images, recipe, 9)
        if not torch.allclose(views, expected, rtol=0, atol=1e-3):  # a GPU rounds otherwise
            return False
    return True


def draw_recipe(views: ViewSet, sizes: Int[Tensor, "b 2"], generator: torch.Generator) -> Recipe:
    """Draws the parameters of one view of each image; `sizes` are the images' heights and widths in pixels."""
    count = len(sizes)
    return Recipe(
        boxes=views.crop and views.crop.draw(sizes, generator),
        mirrored=torch.rand(count, generator=generator) < views.flip,
        jitter=views.jitter and views.jitter.draw(count, generator),
        grey=torch.rand(count, generator=generator) < views.grayscale,
        blur=views.blur and views.blur.draw(count, generator),
    )


def apply_recipe(
    images: UInt8[Tensor, "b 3 h w"], recipe: Recipe, ends: list[int], size: int
) -> Float[Tensor, "b 3 {size} {size}"]:
    """Computes the views of a `numbered` recipe; with jitter, rows are sorted by `hue_after` (`jitter_`).

    All tensors are on one device. Shapes and `ends` hold the number of images of each operator, without a wait.
    """
    if recipe.boxes is None:
        view = center_view(images, size)
        replace_(view, recipe.mirrored, lambda some: some.flip(3))
    else:
        view = resized_crop(images, recipe.boxes, recipe.mirrored, size)
    if recipe.jitter is not None:
        jitter_(view, recipe.jitter, ends)
    replace_(view, recipe.grey, grayscale)
    if recipe.blur is not None:
        blur_(view, recipe.blur, size)
    return view.clamp_(max=1)  # the weights sum to 1 up to rounding, so a value can exceed 1


def blur_(view: Float[Tensor, "b 3 h w"], blur: DrawnBlur, size: int) -> Float[Tensor, "b 3 h w"]:
    """Blurs the chosen images in place; `blur` holds their numbers."""
    sigma = blur.sigma.index_select(0, blur.chosen)
    replace_(view, blur.chosen, lambda some: gaussian_blur(some, sigma, kernel_size(size)))
    return view


def replace_(view: Float[Tensor, "b c h w"], chosen: Int[Tensor, "_"], operator: Callable[[Tensor], Tensor]) -> None:
    """Replaces each chosen image by operator(image), in place; the others cost nothing."""
    if len(chosen):
        view.index_copy_(0, chosen, operator(view.index_select(0, chosen)))


def center_view(
    images: UInt8[Tensor, "b 3 h w"], size: int, sizes: Int[Tensor, "b 2"] | None = None
) -> Float[Tensor, "b 3 {size} {size}"]:
    """The evaluation view: the middle size x size pixels, float32 RGB in [0, 1]; `sizes` as for `augment`.

    >>> import torch
    >>> from annulus.views import center_view
    >>> center_view(torch.full((8, 3, 40, 40), 51, dtype=torch.uint8), 32)[0, 0, 0, 0]
    tensor(0.2000)

    Raises:
        InputError: unless the images are a uint8 batch; for a size below 1; if the images are smaller than the view.
    """
    check_images(images)
    check_size(size)
    if sizes is not None:
        check_sizes(sizes, images, len(images))
        crops = (center_crop(image, size) for image in pieces(images, sizes))
        images = torch.cat([images[:0, :, :size, :size], *crops])
    return center_crop(images, size).float().div_(255)
