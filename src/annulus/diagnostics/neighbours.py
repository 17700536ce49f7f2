"""Pictures of an encoder without classes: images with their nearest neighbours."""

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float, Int64
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from annulus.files.images import ImageSet
from annulus.files.sheets import GAP, sheet, shortened
from annulus.files.store import squares

SIDE = 96  # pixels of an image
CAPTION, LETTERS = 10, 18  # of a file's name below an image: pixels, and characters
HEADINGS = {0: "image", 2: "nearest training images, with cosine similarity"}


def neighbours_sheet(
    train: ImageSet,
    test: ImageSet,
    queries: Int64[Tensor, " q"],
    neighbours: Int64[Tensor, "q k"],
    similarity: Float[Tensor, "q k"],
    names: Mapping[str, Sequence[str]] | None = None,
) -> Image.Image:
    """Draws a row for each test image: the image, and its nearest training images with the cosine similarities.

    `queries` and `neighbours` are positions in the two sets. `names` are the files of both, "train" and "test".
    """
    rows = []
    for query, near, cosines in zip(queries.tolist(), neighbours.tolist(), similarity.tolist(), strict=True):
        pictures = [
            _write(picture(train, row, SIDE), f"{cosine:.2f}") for row, cosine in zip(near, cosines, strict=True)
        ]
        pictures.insert(0, picture(test, query, SIDE))
        if names is not None:
            files = [names["test"][query], *(names["train"][row] for row in near)]
            pictures = [_captioned(one, file) for one, file in zip(pictures, files, strict=True)]
        rows.append(("", [pictures[0], None, *pictures[1:]]))
    return sheet(rows, headings=HEADINGS)


def picture(images: ImageSet, row: int, side: int) -> Image.Image:
    """An image as a square picture: its central square, resized."""
    [pixels] = squares(images.images, torch.tensor([row]))
    whole = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    return whole.resize((side, side), Image.Resampling.BICUBIC)


def _write(image: Image.Image, text: str) -> Image.Image:
    """Writes a text into the image's lower left corner."""
    pen = ImageDraw.Draw(image)
    box = pen.textbbox((GAP, image.height - GAP), text, anchor="ls")
    pen.rectangle((box[0] - 2, box[1] - 2, box[2] + 2, box[3] + 2), "white")
    pen.text((GAP, image.height - GAP), text, "black", anchor="ls")
    return image


def _captioned(image: Image.Image, file: str) -> Image.Image:
    """The image with its file's name below."""
    whole = Image.new("RGB", (image.width, image.height + CAPTION + GAP), "white")
    whole.paste(image, (0, 0))
    font = ImageFont.load_default(CAPTION)
    ImageDraw.Draw(whole).text((0, image.height + 1), shortened(file, LETTERS), "black", font)
    return whole
