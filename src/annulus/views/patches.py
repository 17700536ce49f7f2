"""Views of whole batches: each a random augmentation of its image, or of one of two patches at a distance.

Source: Tian et al. 2020, arXiv:2005.10243, Section 5.2.1.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from annulus.device.copies import to_device
from annulus.errors import InputError
from annulus.views.operators import check_generator
from annulus.views.recipe import augment, check_images, check_size, check_sizes
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet
from annulus.views.shown import Shown, seen_in, whole


def views_of(
    images: UInt8[Tensor, "k 3 h w"],
    views: ViewSet | str,
    size: int,
    generators: Sequence[torch.Generator],
    shown: Sequence[Shown] | None = None,
    sizes: Int[Tensor, "b 2"] | None = None,
) -> list[Float[Tensor, "_ 3 {size} {size}"]]:
    """A view of each image by each generator, as `augment` makes them, with `views` and `sizes` as there.

    With the set's patches, view n is of the square of size x size pixels n offsets down and to the right of the first
    one, whose place the first generator draws, evenly over where all squares fit.

    >>> import torch
    >>> from annulus.views import Patches, ViewSet, views_of
    >>> images = torch.randint(0, 256, (8, 3, 40, 40), dtype=torch.uint8)
    >>> generators = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    >>> first, second = views_of(images, ViewSet(patches=Patches(offset=8)), 32, generators)
    >>> bool((first[:, :, 8:, 8:] == second[:, :, :24, :24]).all())
    True

    With `shown`, the images are rows `seen_in(shown)` of a batch, and each view is of its own rows of it.

    Source: Tian et al. 2020, arXiv:2005.10243, Section 5.2.1.

    Raises:
        InputError: as `augment`; when the images do not hold the last patch.
    """
    check_images(images)
    check_size(size)
    views = view_set(views)
    if not isinstance(generators, Sequence) or not generators:
        raise InputError(f"generators {generators!r}: give a list of torch.Generator(), one for each view")
    for random in generators:
        check_generator(random)
    if shown is None:
        shown = [whole(len(images))] * len(generators)
    seen = seen_in(shown)
    if sizes is not None:
        check_sizes(sizes, images, shown[0].batch, seen)
    if views.patches is not None:
        smallest = min(images.shape[2:]) if sizes is None else int(sizes.min())
        views.patches.check(smallest, size, len(generators))
        squares = torch.tensor([images.shape[2:]]).expand(shown[0].batch, 2)
        reach = size + views.patches.offset * (len(generators) - 1)
        corners = draw_corners(squares if sizes is None else sizes, reach, generators[0])[seen]
    found = []
    for number, (own, random) in enumerate(zip(shown, generators, strict=True)):
        some = images if views.patches is None else cut(images, corners + number * views.patches.offset, size)
        if len(own.rows) < len(seen):
            some = some.index_select(0, *to_device([torch.searchsorted(seen, own.rows)], images.device))
        found.append(augment(some, replace(views, patches=None), size, random, own, None if views.patches else sizes))
    return found


def draw_corners(sizes: Int[Tensor, "b 2"], reach: int, random: torch.Generator) -> Int[Tensor, "b 2"]:
    """The first row and column of a square of `reach` pixels in each image of so many (height, width)."""
    # A double below 1: the floor never reaches one past the last place.
    shares = torch.rand(sizes.shape, generator=random, dtype=torch.float64)
    return (shares * (sizes - reach + 1)).floor().long()


def cut(images: UInt8[Tensor, "b 3 h w"], corners: Int[Tensor, "b 2"], size: int) -> UInt8[Tensor, "b 3 {size} {size}"]:
    """The squares of size x size pixels whose first rows and columns these are."""
    if len(images) == 0:
        return images[:, :, :size, :size]
    return torch.stack(
        [
            image[:, top : top + size, left : left + size]
            for image, (top, left) in zip(images, corners.tolist(), strict=True)
        ]
    )
