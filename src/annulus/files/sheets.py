"""Sheets of pictures: rows with their names at the left, one layout for all that studies draw as PNG."""

import io
from collections.abc import Sequence

from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

GAP, FONT = 4, 13  # pixels: between pictures; a row's name
Row = tuple[str, Sequence[Image.Image | None]]  # a name, and pictures; None leaves a place empty


def sheet(rows: Sequence[Row], together: int = 1) -> Image.Image:
    """Rows of pictures of one size, in groups of `together` columns with a wider gap between groups."""
    font = ImageFont.load_default(FONT)
    label = 3 * GAP + max(round(font.getlength(name)) for name, _ in rows)
    width, height = next(picture.size for _, row in rows for picture in row if picture is not None)
    lefts = [
        label + column * (width + GAP) + column // together * (GAP if together > 1 else 0)
        for column in range(max(len(row) for _, row in rows))
    ]
    image = Image.new("RGB", (lefts[-1] + width + GAP, GAP + len(rows) * (height + GAP)), "white")
    pen = ImageDraw.Draw(image)
    for place, (name, row) in enumerate(rows):
        top = GAP + place * (height + GAP)
        pen.text((GAP, top + (height - FONT) // 2), name, "black", font)
        for left, picture in zip(lefts, row, strict=False):
            if picture is not None:
                image.paste(picture, (left, top))
    return image


def tile(pixels: UInt8[Tensor, "3 h w"], side: int) -> Image.Image:
    """An image as a picture of `side` pixels a side, each of its own pixels a square."""
    picture = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    return picture.resize((side, side), Image.Resampling.NEAREST)


def png(picture: Image.Image) -> bytes:
    """A picture as the PNG that git keeps: small, and made before a file is opened."""
    coded = io.BytesIO()
    picture.save(coded, "PNG", optimize=True)
    return coded.getvalue()
