"""Decoding of JPEG: by simplejpeg if its pixels equal Pillow's, else by Pillow.

Pillow holds Python's lock for a third of its time, which limits the images per second of a process with many cores.
simplejpeg holds it for a fortieth, and takes two thirds of the time (both use libjpeg-turbo).
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
# Decodes a JPEG into a slot of its size, as RGB. Returns height and width of the JPEG. If the slot has another size, it
# stays as it is.
Decode = Callable[[UInt8[np.ndarray, " k"], Slot], tuple[int, int]]


@cache
def decoder() -> Decode:
    """Returns the fastest installed decoder whose pixels equal Pillow's."""
    if find_spec("simplejpeg") is None:
        log.info("Pillow decodes the JPEGs; simplejpeg gives the same pixels faster: pip install 'annulus-ssl[jpeg]'")
        return by_pillow
    if not _agree():
        log.warning("WARNING: simplejpeg is not used: it gives other pixels than Pillow, which takes longer")
        return by_pillow
    return by_simplejpeg


def by_simplejpeg(coded: UInt8[np.ndarray, " k"], slot: Slot) -> tuple[int, int]:
    """Decodes by simplejpeg; by Pillow for CMYK and damaged bytes.

    simplejpeg converts CMYK otherwise than Pillow. libjpeg can omit a part of a damaged image; Pillow raises for it.

    Raises:
        Exception: of any kind, if the bytes are not a JPEG.
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
    except (ValueError, KeyError):  # a KeyError: a subsampling that simplejpeg does not know
        pass
    return by_pillow(coded, slot)


def by_pillow(coded: UInt8[np.ndarray, " k"], slot: Slot) -> tuple[int, int]:
    """Decodes by Pillow. (torchvision will remove its decoders: its 0.29 warns of it.)

    Raises:
        Exception: of any kind, if the bytes are not a JPEG.
    """
    from PIL import Image  # here, since only JPEG needs it

    with Image.open(io.BytesIO(coded), formats=("JPEG",)) as image:
        if slot.shape == (image.height, image.width, 3):
            slot[:] = np.asarray(image if image.mode == "RGB" else image.convert("RGB"))
        return image.height, image.width


def _agree() -> bool:
    """Returns True if both decoders give the same pixels for each chroma subsampling of JPEG."""
    from PIL import Image

    levels = np.random.default_rng(0).integers(0, 256, (9, 6, 3), dtype=np.uint8)
    image = Image.fromarray(levels).resize((43, 61), Image.Resampling.BICUBIC)
    slots = np.empty((2, 61, 43, 3), np.uint8)
    for options in ({"subsampling": chroma, "progressive": chroma == 2} for chroma in range(3)):
        coded = io.BytesIO()
        image.save(coded, "JPEG", quality=90, **options)
        for slot, decode in zip(slots, (by_simplejpeg, by_pillow), strict=True):
            decode(np.frombuffer(coded.getvalue(), np.uint8), slot)
        if not np.array_equal(*slots):
            return False
    return True
