"""Views: random augmentations of whole batches, each image with its own parameters.

    crop      which part of the image: random resized crop, flip
    colour    jitter, greyscale
    blur      Gaussian blur

These have fast paths: chunks of a batch, large images one by one on a CPU, kernels on a GPU. Every further operator of
a view set (`annulus.views.operators`) is applied to the finished views.

All parameters of a batch are drawn before any pixel is touched, so the order in which images are then
worked on, and in how large chunks, changes nothing but the speed.
"""

from collections.abc import Callable
from numbers import Integral
from typing import NamedTuple

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int, UInt8
from torch import Tensor

from annulus.device.device import threads
from annulus.device.kernels import trusted
from annulus.errors import InputError
from annulus.files.store import pieces
from annulus.views.blur import DrawnBlur, kernel_size
from annulus.views.colour import NEVER, DrawnJitter, grayscale, hue_ends, jitter_
from annulus.views.crop import CropBoxes, center_boxes, center_crop, middle, resized_crop
from annulus.views.drawn import numbered, on, pick
from annulus.views.gaussian import gaussian_blur
from annulus.views.large import LARGE, by_images
from annulus.views.operators import check_generator, described
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet
from annulus.views.shown import Shown

# Pixels worked on at a time: on a CPU what, with temporaries, a core's L2 cache about holds; on a GPU a
# bound on memory. Several threads share each operation, and starting them costs what half of a core's part takes.
CPU_CHUNK, GPU_CHUNK = 2**16, 2**24


# Which images get an operator: drawn for each of them, then their numbers (`numbered`).
Chosen = Bool[Tensor, "b"] | Int[Tensor, "_"]


class Recipe(NamedTuple):
    """The operators that each image of a batch gets, in this order. None: no image gets this one."""

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
    shown: Shown | None = None,
    sizes: Int[Tensor, "b 2"] | None = None,
) -> Float[Tensor, "v 3 {size} {size}"]:
    """One random view of each image, float32 RGB in [0, 1] on the images' device.

    `views` is a set or the name of one of `annulus.views.SETS`. In this order: random resized crop (without one: the
    middle size x size pixels), flip, colour jitter, greyscale, blur: torchvision's usual contrastive recipe; then
    RandAugment and the set's further operators. Sets with patches are for `views_of`.

    >>> import torch
    >>> from annulus.views import augment
    >>> images = torch.randint(0, 256, (8, 3, 40, 40), dtype=torch.uint8)
    >>> generator = torch.Generator().manual_seed(0)
    >>> first, second = (augment(images, "moco-v2", 32, generator) for _ in range(2))
    >>> first.shape, bool((first == second).all())
    (torch.Size([8, 3, 32, 32]), False)

    The generator lives on the CPU: the same views for every device. In a DataLoader's workers give
    `torch.default_generator`, which each worker has with a seed of its own, a new one each epoch; of a generator that
    the data set holds every worker has a copy, and makes the same views, in every epoch. With `shown`, the images are
    some rows of a batch: the generator draws for the whole batch, so processes that share one go on with the same
    randomness, and views are the rows of what one process would make. Where images differ in size, `sizes` are heights
    and widths of the whole batch, on the CPU; each image lies in the upper left corner.

    Raises:
        InputError: for anything but a uint8 batch, for an unknown set or one with patches, a size below 1, sizes that
            the images do not have, a generator that is not on the CPU; without a crop, when the images are smaller than
            the view.
    """
    check_images(images)
    check_size(size)
    check_generator(generator)
    views = view_set(views)
    if views.patches is not None:
        raise InputError("a set with patches makes several views of each image together; call annulus.views.views_of")
    batch = len(images) if shown is None else shown.batch
    if sizes is not None:
        check_sizes(sizes, images, batch, None if shown is None else shown.rows)
        images, sizes = _padded(images, sizes), sizes.long()
    height, width = images.shape[2:]
    squares = torch.tensor([[height, width]]).expand(batch, 2)
    with threads(1):  # others take longer to start than some thousand numbers, and then spin beside a GPU's queue
        recipe = draw_recipe(views, squares if sizes is None else sizes, generator)
        drawn = [operator.draw(batch, generator) for operator in views.general]
    if sizes is not None and recipe.boxes is None:
        recipe = recipe._replace(boxes=center_boxes(sizes, size))
    if shown is not None:
        recipe, drawn = pick(recipe, shown.rows), [pick(parameters, shown.rows) for parameters in drawn]
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
    """As large as the longest of the whole batch, for that decides how a view is made: in 8 bits or not."""
    if len(sizes) == 0:
        return images
    high, wide = (max(0, most - own) for most, own in zip(sizes.amax(dim=0).tolist(), images.shape[2:], strict=True))
    return F.pad(images, (0, wide, 0, high)) if high or wide else images


def check_images(images: Tensor) -> None:
    """Refuse what is no batch of stored images.

    Raises:
        InputError: unless it is uint8 RGB of shape (batch, 3, height, width).
    """
    if not isinstance(images, Tensor) or images.dtype != torch.uint8 or images.ndim != 4 or images.shape[1] != 3:
        raise InputError(
            f"images are {described(images)}: give uint8 RGB of shape (batch, 3, height, width); "
            "of floats in [0, 1], (255 * images).round().to(torch.uint8)"
        )


def check_sizes(sizes: Tensor, images: Tensor, batch: int, rows: Tensor | None = None) -> None:
    """Refuse heights and widths that the images cannot have; `rows` are those of the batch that the images are.

    Raises:
        InputError: unless there are two whole numbers on the CPU for each of the batch, from 1 to the images' own.
    """
    known = isinstance(sizes, Tensor) and sizes.dtype in (torch.int32, torch.int64) and not sizes.is_cuda
    if not known or sizes.shape != (batch, 2):
        raise InputError(
            f"sizes are {described(sizes)}: give int64 of shape ({batch}, 2) on the CPU, height and width of each image"
        )
    own = sizes if rows is None else sizes[rows]
    if len(own) and not (own.min() >= 1 and (own <= torch.tensor(images.shape[2:])).all()):
        raise InputError(
            f"sizes from {own.amin(dim=0).tolist()} to {own.amax(dim=0).tolist()} (height, width) of images "
            f"{tuple(images.shape[2:])}: each lies in the upper left corner of its image"
        )


def check_size(size: int) -> None:
    """Refuse what is no side of a view.

    Raises:
        InputError: unless it is a whole number, 1 or more.
    """
    if not isinstance(size, Integral) or size < 1:
        raise InputError(f"size {size!r}: give the side of a view in pixels, a whole number from 1 on")


def by_chunks(images: UInt8[Tensor, "b 3 h w"], recipe: Recipe, size: int) -> Float[Tensor, "b 3 {size} {size}"]:
    """The views of a recipe, which is on the CPU, some images at a time; on a CPU for images that are not large."""
    count, _, height, width = images.shape
    order = torch.arange(count) if recipe.jitter is None else recipe.jitter.hue_after.argsort()

    recipe, cpu = pick(recipe, order), images.device.type == "cpu"
    # Pixels that lie as JPEG's come from threads, which decode the next batch now and would be in the way.
    sharing = 1 if images.stride(1) == 1 else torch.get_num_threads()
    chunk = CPU_CHUNK if sharing == 1 else 2 * sharing * CPU_CHUNK
    step = max(1, (chunk if cpu else GPU_CHUNK) // max(height * width, size * size))
    result = torch.empty(count, 3, size, size, device=images.device)

    # A training step's autocast would resample in bfloat16, whose 8 bits lose what a pixel holds.
    with torch.autocast(images.device.type, enabled=False), threads(sharing):
        for start in range(0, count, step):
            part = slice(start, start + step)
            rows, some = order[part], pick(recipe, part)
            ends = [] if some.jitter is None else hue_ends(some.jitter.hue_after)
            rows, some = on(Chunk(rows, numbered(some)), images.device)
            result.index_copy_(0, rows, apply_recipe(images.index_select(0, rows), some, ends, size))
    return result


def _by_kernels(images: UInt8[Tensor, "b 3 h w"], recipe: Recipe, size: int) -> Float[Tensor, "b 3 {size} {size}"]:
    """The views of a recipe on a GPU, each image by its own parameters: no list of chosen images but the blurred."""
    from annulus.views import kernels  # it needs Triton

    if recipe.boxes is None:
        place = middle(*images.shape[2:], size)
        recipe = recipe._replace(boxes=CropBoxes(*(torch.full((len(images),), each) for each in (*place, size, size))))
    boxes, mirrored, jitter, grey, blur = on(recipe._replace(blur=numbered(recipe.blur)), images.device)
    with torch.cuda.device_of(images):  # Triton starts kernels on the current device
        view = kernels.view(images, boxes, mirrored, jitter, grey, size)
    return view if blur is None else blur_(view, blur, size).clamp_(max=1)


def kernels_agree(device: torch.device) -> bool:
    """True where the kernels make the views that a CPU makes: boxes that shrink and grow, every order of operators."""
    count, generator = 10, torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (count, 3, 20, 15), generator=generator, dtype=torch.uint8)
    order = torch.arange(count)
    boxes = CropBoxes(order % 5, order % 3, order % 16 + 1, order % 13 + 1)
    factors, turn = torch.rand(count, 3, generator=generator) * 2, torch.rand(count, generator=generator) - 0.5
    kind = torch.rand(count, 3, generator=generator).argsort(dim=1)
    jitter = DrawnJitter(factors, kind, turn, order % (NEVER + 1))
    for some in (jitter, None):
        recipe = Recipe(boxes, order % 2 == 0, some, order % 7 == 0, None)
        found, expected = _by_kernels(images.to(device), recipe, 9).cpu(), by_chunks(images, recipe, 9)
        if not torch.allclose(found, expected, rtol=0, atol=1e-3):  # a GPU rounds otherwise
            return False
    return True


def draw_recipe(views: ViewSet, sizes: Int[Tensor, "b 2"], generator: torch.Generator) -> Recipe:
    """Draw the parameters of one view of each image, of so many pixels (height, width)."""
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
    """The views that a `numbered` recipe describes; with jitter, rows come sorted by when their hue turns (`jitter_`).

    Everything is on one device, and so how many images an operator touches is known from shapes and from `ends`.
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
    return view.clamp_(max=1)  # weights that sum to one only up to rounding can step past it


def blur_(view: Float[Tensor, "b 3 h w"], blur: DrawnBlur, size: int) -> Float[Tensor, "b 3 h w"]:
    """Blur the chosen images, whose numbers `blur` holds, in place."""
    sigma = blur.sigma.index_select(0, blur.chosen)
    replace_(view, blur.chosen, lambda some: gaussian_blur(some, sigma, kernel_size(size)))
    return view


def replace_(view: Float[Tensor, "b c h w"], chosen: Int[Tensor, "_"], operator: Callable[[Tensor], Tensor]) -> None:
    """Put operator(image) in the place of each chosen image; the others cost nothing."""
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
        InputError: for anything but a uint8 batch, and a size below 1; when the images are smaller than the view.
    """
    check_images(images)
    check_size(size)
    if sizes is not None:
        check_sizes(sizes, images, len(images))
        images = torch.cat([images[:0, :, :size, :size], *(center_crop(one, size) for one in pieces(images, sizes))])
    return center_crop(images, size).float().div_(255)
