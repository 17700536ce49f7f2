"""Decoding of JPEG: by simplejpeg where it gives Pillow's pixels, else by Pillow.

Pillow holds Python's lock for a third of its time, and so bounds how many images a process decodes whatever its cores.
simplejpeg holds it for a fortieth, and takes two thirds of the time (libjpeg-turbo, both).
"""

import io
import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import numpy as np
from jaxtyping import UInt8

log = logging.getLogger("annulus")

Slot = UInt8[np.ndarray, "h w 3"]
# Fills a slot with the RGB pixels of a JPEG of its size. Returns height and width of the JPEG; where they are not the
# slot's, nothing is decoded.
Decode = Callable[[UInt8[np.ndarray, " k"], Slot], tuple[int, int]]


@cache
def decoder() -> Decode:
    """The fastest decoder here that gives Pillow's pixels."""
    if find_spec("simplejpeg") is None:
        log.info("Pillow decodes the JPEGs; simplejpeg gives the same pixels faster: pip install 'annulus-ssl[jpeg]'")
        return by_pillow
    if not _agree():
        log.warning("WARNING: simplejpeg is not used: it gives other pixels than Pillow, which takes longer")
        return by_pillow
    return by_simplejpeg


def by_simplejpeg(coded: UInt8[np.ndarray, " k"], slot: Slot) -> tuple[int, int]:
    """Decode what simplejpeg decodes as Pillow does; the rest Pillow decodes or refuses.

    The rest: CMYK, which simplejpeg converts otherwise, and bytes with a fault, of which libjpeg can leave out a part.

    Raises:
        Exception: of any kind, when the bytes are not a JPEG.
    """
    import simplejpeg

    try:
        height, width, space, _ = simplejpeg.decode_jpeg_header(coded)
        if space in ("RGB", "YCbCr", "Gray"):
            if slot.shape == (height, width, 3):
                whole = slot.flags.c_contiguous
                pixels = simplejpeg.decode_jpeg(coded, buffer=slot if whole else None)
                if not whole:
                    slot[:] = pixels
            return height, width
    except (ValueError, KeyError):  # a KeyError: a subsampling that it has no name for
        pass
    return by_pillow(coded, slot)


def by_pillow(coded: UInt8[np.ndarray, " k"], slot: Slot) -> tuple[int, int]:
    """Decode by Pillow. (torchvision's decoders will be removed: its 0.29 warns of it.)

    Raises:
        Exception: of any kind, when the bytes are not a JPEG.
    """
    from PIL import Image  # only those who read JPEG need it

    with Image.open(io.BytesIO(coded), formats=("JPEG",)) as image:
        if slot.shape == (image.height, image.width, 3):
            slot[:] = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
        return image.height, image.width


def _agree() -> bool:
    """Returns True if both decoders give the same pixels, for each way in which JPEG keeps colours."""
    from PIL import Image

    levels = np.random.default_rng(0).integers(0, 256, (9, 6, 3), dtype=np.uint8)
    image = Image.fromarray(levels).resize((43, 61), Image.Resampling.BICUBIC)
    slots = np.empty((2, 61, 43, 3), np.uint8)
    for options in ({"subsampling": kept, "progressive": kept == 2} for kept in range(3)):
        coded = io.BytesIO()
        image.save(coded, "JPEG", quality=90, **options)
        for slot, decode in zip(slots, (by_simplejpeg, by_pillow), strict=True):
            decode(np.frombuffer(coded.getvalue(), np.uint8), slot)
        if not np.array_equal(*slots):
            return False
    return True
