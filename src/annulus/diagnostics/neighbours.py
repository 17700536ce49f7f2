"""Pictures of an encoder that need no class: images with their nearest neighbours."""

import torch
from jaxtyping import Float, Int64
from PIL import Image, ImageDraw
from torch import Tensor

from annulus.files.images import ImageSet
from annulus.files.sheets import GAP, sheet
from annulus.files.store import squares

SIDE = 96  # pixels of an image


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
            _said(picture(train, row, SIDE), f"{cosine:.2f}") for row, cosine in zip(near, cosines, strict=True)
        ]
        rows.append(("", [picture(test, query, SIDE), None, *pictures]))
    return sheet(rows)


def picture(images: ImageSet, row: int, side: int) -> Image.Image:
    """An image as a square picture: its central square, resized."""
    [pixels] = squares(images.images, torch.tensor([row]))
    whole = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    return whole.resize((side, side), Image.Resampling.BICUBIC)


def _said(image: Image.Image, text: str) -> Image.Image:
    """A word in an image's lower left corner."""
    pen = ImageDraw.Draw(image)
    box = pen.textbbox((GAP, image.height - GAP), text, anchor="ls")
    pen.rectangle((box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2), "white")
    pen.text((GAP, image.height - GAP), text, "black", anchor="ls")
    return image
