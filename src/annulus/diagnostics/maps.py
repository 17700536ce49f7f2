"""Pictures of an encoder that need no class: images with their nearest neighbours, and a map of all by PCA."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int64, UInt8
from PIL import Image, ImageDraw
from torch import Tensor

from annulus.files.images import ImageSet
from annulus.files.sheets import GAP, sheet
from annulus.files.store import pieces

MOST, TILE, NEIGHBOUR = 400, 40, 96  # images on a map; pixels a side of each; and of a neighbour
FRAME = 3  # pixels of a class's colour around an image
COLOURS = ("#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#ff8ab7", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0")


def neighbours_sheet(
    train: ImageSet,
    test: ImageSet,
    queries: Int64[Tensor, " q"],
    neighbours: Int64[Tensor, "q k"],
    similarity: Float[Tensor, "q k"],
) -> Image.Image:
    """A row for each test image, at the left, and the training images nearest to it, with the cosine similarity.

    `queries` and `neighbours` are positions in the two sets.
    """
    rows = []
    for query, near, cosines in zip(queries.tolist(), neighbours.tolist(), similarity.tolist(), strict=True):
        pictures = [
            _said(picture(train, row, NEIGHBOUR), f"{cosine:.2f}") for row, cosine in zip(near, cosines, strict=True)
        ]
        rows.append(("", [picture(test, query, NEIGHBOUR), None, *pictures]))
    return sheet(rows)


def map_picture(parts: Sequence[tuple[ImageSet, Float[Tensor, "_ d"]]], random: torch.Generator) -> Image.Image:
    """Images at their places in the plane of the first two principal components, at most 400 of them.

    An image takes the free cell of a grid nearest to its place, so that none covers another. With two to ten classes, a
    frame has the colour of the image's class. The components are those of all features.

    `parts` are sets with the features of their first images; all have the same classes.
    """
    sources = [(images, row) for images, features in parts for row in range(len(features))]
    classes = parts[0][0].classes
    some = torch.randperm(len(sources), generator=random)[:MOST]
    cells = on_grid(principal_plane(torch.cat([features for _, features in parts]))[some])
    columns, rows = (int(side) + 1 for side in cells.max(dim=0).values)
    coloured = 2 <= len(classes) <= len(COLOURS)
    drawn = Image.new("RGB", (columns * TILE, rows * TILE), "white")
    for place, (column, line) in zip(some.tolist(), cells.tolist(), strict=True):
        images, row = sources[place]
        image = picture(images, row, TILE - 2 * coloured * FRAME)
        if coloured:
            frame = Image.new("RGB", (TILE, TILE), COLOURS[int(images.labels[row])])
            frame.paste(image, (FRAME, FRAME))
            image = frame
        drawn.paste(image, (column * TILE, line * TILE))
    return _with_classes(drawn, classes) if coloured else drawn


def principal_plane(features: Float[Tensor, "n d"]) -> Float[Tensor, "n 2"]:
    """Coordinates along the two directions in which the features vary most; the first is the wider one.

    A component's sign is such that its largest weight is positive, so that the same features give the same picture.
    """
    centred = (features - features.mean(dim=0)).double()
    _, axes = torch.linalg.eigh(centred.T @ centred)  # ascending
    axes = axes[:, -2:].flip(1)
    return centred @ (axes * axes.gather(0, axes.abs().argmax(dim=0, keepdim=True)).sign())


def on_grid(places: Float[Tensor, "n 2"]) -> Int64[Tensor, "n 2"]:
    """A cell of its own for each place, column and line: the nearest that is free, the places in the middle first.

    The grid has about twice as many cells as there are places, which are ranks along each axis by half and distances by
    half: a crowd is spread, and what is far stays far.
    """
    count = len(places)
    side = max(math.ceil(math.sqrt(2 * count)), 1)
    span = (places.max(dim=0).values - places.min(dim=0).values).clamp(min=1e-12)
    by_distance = (places - places.min(dim=0).values) / span
    by_rank = places.argsort(dim=0, stable=True).argsort(dim=0).double() / max(count - 1, 1)
    wanted = (by_distance + by_rank) / 2 * (side - 1)
    cells = torch.cartesian_prod(torch.arange(side), torch.arange(side))
    free = torch.ones(len(cells), dtype=torch.bool)
    found = torch.zeros(count, 2, dtype=torch.int64)
    for place in (wanted - wanted.mean(dim=0)).norm(dim=1).argsort(stable=True).tolist():
        far = (cells - wanted[place]).square().sum(dim=1).masked_fill(~free, torch.inf)
        cell = int(far.argmin())
        found[place], free[cell] = cells[cell], False
    return found - found.min(dim=0).values


def picture(images: ImageSet, row: int, side: int) -> Image.Image:
    """An image as a square picture: its central square, resized."""
    index = torch.tensor([row])
    [pixels] = pieces(images.images.take(index), images.images.sizes_of(index))
    return square(pixels[0], side)


def square(pixels: UInt8[Tensor, "3 h w"], side: int) -> Image.Image:
    """The central square of an image as a picture of `side` pixels."""
    least = min(pixels.shape[1:])
    top, left = ((length - least) // 2 for length in pixels.shape[1:])
    whole = Image.fromarray(pixels[:, top : top + least, left : left + least].permute(1, 2, 0).contiguous().numpy())
    return whole.resize((side, side), Image.Resampling.BICUBIC)


def _said(image: Image.Image, text: str) -> Image.Image:
    """A word in an image's lower left corner."""
    pen = ImageDraw.Draw(image)
    box = pen.textbbox((GAP, image.height - GAP), text, anchor="ls")
    pen.rectangle((box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2), "white")
    pen.text((GAP, image.height - GAP), text, "black", anchor="ls")
    return image


def _with_classes(drawn: Image.Image, classes: tuple[str, ...]) -> Image.Image:
    """The names of the classes below a map, each in its colour."""
    line = 18
    whole = Image.new("RGB", (drawn.width, drawn.height + GAP + line * len(classes)), "white")
    whole.paste(drawn, (0, 0))
    pen = ImageDraw.Draw(whole)
    for place, name in enumerate(classes):
        top = drawn.height + GAP + place * line
        pen.rectangle((GAP, top + 3, GAP + 12, top + 15), COLOURS[place])
        pen.text((GAP + 18, top + 3), name[:60].encode("ascii", "replace").decode(), "black")
    return whole
