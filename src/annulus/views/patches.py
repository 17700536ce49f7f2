"""Several views of each image of a batch: random augmentations of the image, or of patches at a distance.

Source: Tian et al. 2020, arXiv:2005.10243, Section 5.2.1.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int, UInt8
from torch import Tensor

from annulus.device.copies import to_device
from annulus.errors import InputError
from annulus.views.batch_share import BatchShare, rows_in, whole
from annulus.views.operators import check_generator
from annulus.views.recipe import augment, check_images, check_size, check_sizes
from annulus.views.sets import view_set
from annulus.views.settings import ViewSet


def draw_views(
    images: UInt8[Tensor, "k 3 h w"],
    views: ViewSet | str | Sequence[ViewSet | str],
    size: int,
    generators: Sequence[torch.Generator],
    shares: Sequence[BatchShare] | None = None,
    sizes: Int[Tensor, "b 2"] | None = None,
) -> list[Float[Tensor, "_ 3 {size} {size}"]]:
    """Draws a view of each image by each generator; `sizes` as in `augment`.

    `views` is a set as in `augment`, or a list with the set of each view. If the (first) set has patches, view n is an
    augmentation of a square of size x size pixels. The square lies n offsets below and right of the first square.
    The first generator draws the first square uniformly from all places where every square fits.

    >>> import torch
    >>> from annulus.views import Patches, ViewSet, draw_views
    >>> images = torch.randint(0, 256, (8, 3, 40, 40), dtype=torch.uint8)
    >>> generators = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    >>> first, second = draw_views(images, ViewSet(patches=Patches(offset=8)), 32, generators)
    >>> bool((first[:, :, 8:, 8:] == second[:, :, :24, :24]).all())
    True

    With `shares`, the images are rows `rows_in(shares)` of a batch, and each view is of the rows of its own share.

    Source: Tian et al. 2020, arXiv:2005.10243, Section 5.2.1.

    Raises:
        InputError: as `augment`; if the images do not hold the last patch, or a list lacks a set for a view.
    """
    check_images(images)
    check_size(size)
    if not isinstance(generators, Sequence) or not generators:
        raise InputError(f"generators {generators!r}: give a list of torch.Generator(), one for each view")
    for random in generators:
        check_generator(random)
    each = isinstance(views, Sequence) and not isinstance(views, str)
    sets = [view_set(one) for one in views] if each else [view_set(views)] * len(generators)
    if len(sets) != len(generators):
        raise InputError(f"{len(sets)} sets of views for {len(generators)} generators: give as many")
    patches = sets[0].patches
    if shares is None:
        shares = [whole(len(images))] * len(generators)
    rows = rows_in(shares)
    if sizes is not None:
        check_sizes(sizes, images, shares[0].batch, rows)
    if patches is not None:
        smallest = min(images.shape[2:]) if sizes is None else int(sizes.min())
        patches.check(smallest, size, len(generators))
        squares = torch.tensor([images.shape[2:]]).expand(shares[0].batch, 2)
        reach = size + patches.offset * (len(generators) - 1)
        corners = draw_corners(squares if sizes is None else sizes, reach, generators[0])[rows]
    augmented = []
    for number, (own, share, random) in enumerate(zip(sets, shares, generators, strict=True)):
        some = images if patches is None else cut(images, corners + number * patches.offset, size)
        if len(share.rows) < len(rows):
            some = some.index_select(0, *to_device([torch.searchsorted(rows, share.rows)], images.device))
        single = own if own.patches is None else replace(own, patches=None)
        augmented.append(augment(some, single, size, random, share, None if patches else sizes))
    return augmented


def draw_corners(sizes: Int[Tensor, "b 2"], reach: int, random: torch.Generator) -> Int[Tensor, "b 2"]:
    """Draws the first row and column of a square of `reach` pixels in each image; `sizes` are heights and widths."""
    # The draws are doubles below 1, so the floor is at most the last place.
    shares = torch.rand(sizes.shape, generator=random, dtype=torch.float64)
    return (shares * (sizes - reach + 1)).floor().long()


def cut(images: UInt8[Tensor, "b 3 h w"], corners: Int[Tensor, "b 2"], size: int) -> UInt8[Tensor, "b 3 {size} {size}"]:
    """Cuts the squares of size x size pixels with these first rows and columns."""
    if len(images) == 0:
        return images[:, :, :size, :size]
    return torch.stack(
        [
            image[:, top : top + size, left : left + size]
            for image, (top, left) in zip(images, corners.tolist(), strict=True)
        ]
    )
