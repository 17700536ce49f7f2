"""Sheets of pictures as PNG: rows with their names at the left, columns below headings. All studies use this layout."""

import io
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from jaxtyping import UInt8
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

GAP, FONT = 4, 13  # pixels: between pictures; a row's name
LONGEST = 26  # characters of a name
SheetRow = tuple[str, Sequence[Image.Image | None]]  # a name, and pictures; None leaves a place empty


def sheet(rows: Sequence[SheetRow], together: int = 1, headings: Mapping[int, str] | None = None) -> Image.Image:
    """Draws rows of pictures of one size, in groups of `together` columns with a wider gap between groups.

    A column without a picture in any row is a gap. `headings` stand above their columns, and may be wider.
    """
    font = ImageFont.load_default(FONT)
    label = 3 * GAP + max(round(font.getlength(name)) for name, _ in rows)
    width, height = next(picture.size for _, row in rows for picture in row if picture is not None)
    lefts, right = [], label
    for number, column in enumerate(zip_longest(*(row for _, row in rows))):
        right += GAP * (number > 0 and together > 1 and number % together == 0)
        lefts.append(right)
        right += (width if any(picture is not None for picture in column) else GAP) + GAP
    above = GAP + FONT + GAP if headings else GAP
    image = Image.new("RGB", (right, above + len(rows) * (height + GAP)), "white")
    pen = ImageDraw.Draw(image)
    for column, heading in (headings or {}).items():
        pen.text((lefts[column], GAP), in_latin(heading), "black", font)
    for place, (name, row) in enumerate(rows):
        top = above + place * (height + GAP)
        pen.text((GAP, top + (height - FONT) // 2), name, "black", font)
        for left, picture in zip(lefts, row, strict=False):
            if picture is not None:
                image.paste(picture, (left, top))
    return image


def shortened(name: str, longest: int = LONGEST) -> str:
    """A file's name without its folders, cut in the middle, in letters that Pillow's own font has."""
    name = in_latin(name.rpartition("/")[2])
    return name if len(name) <= longest else f"{name[: longest - 10]}...{name[-7:]}"


def in_latin(text: str) -> str:
    """Text in Latin-1, the letters of Pillow's own font; others become ?."""
    return text.encode("latin-1", "replace").decode("latin-1")


def tile(pixels: UInt8[Tensor, "3 h w"], side: int) -> Image.Image:
    """An image as a picture of `side` x `side` pixels; each pixel of the image becomes a square."""
    picture = Image.fromarray(pixels.permute(1, 2, 0).contiguous().numpy())
    return picture.resize((side, side), Image.Resampling.NEAREST)


def png(picture: Image.Image) -> bytes:
    """Encodes a picture as a small PNG, before a file is opened."""
    coded = io.BytesIO()
    picture.save(coded, "PNG", optimize=True)
    return coded.getvalue()
