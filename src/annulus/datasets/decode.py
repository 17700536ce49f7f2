"""Decodes image files of any format, mode and size to RGB squares of one size, in parallel."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import UInt8
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.TiffImagePlugin import TiffImageFile
from torch import Tensor
from tqdm import tqdm

from annulus.device.threads import threads
from annulus.files.regular import check_regular

# Named, since Pillow's full list holds formats that start other programs (EPS) or that nobody keeps photographs in.
FORMATS = ("PNG", "JPEG", "WEBP", "AVIF", "JPEG2000", "BMP", "GIF", "TIFF", "PPM")
SUFFIXES = {".png", ".jpg", ".jpeg", ".jfif", ".webp", ".avif", ".jp2", ".j2k", ".bmp", ".gif", ".tif", ".tiff"}
SUFFIXES |= {".ppm", ".pgm", ".pbm"}
HEIF_SUFFIXES = {".heic", ".heif", ".hif"}
SUFFIXES |= HEIF_SUFFIXES
SUFFIXES |= {".jxl", ".psd", ".svg", ".dng", ".cr2", ".nef", ".arw"}  # not read, but not overlooked
ORIENTATION = 0x0112  # EXIF's tag; 1: upright
SPREAD = {"L;2": 85, "L;4": 17}  # Pillow spreads a PNG's grey levels of few bits over 0 to 255
FILES_AT_ONCE = 64  # a thread's portion: enough to make its start cheap


def decode_files(files: Sequence[Path], size: int, title: str) -> tuple[UInt8[Tensor, "n 3 h w"], Mapping[int, str]]:
    """All files as squares of `size` pixels, and by position the reason why one could not be read (it is black).

    Threads, since Pillow lets go of Python's lock while it decodes and resizes; besides the result, memory holds one
    decoded file per thread.
    """
    images = np.zeros((len(files), 3, size, size), np.uint8)
    bad: dict[int, str] = {}

    def decode_some(start: int) -> int:
        portion = range(start, min(start + FILES_AT_ONCE, len(files)))
        for position in portion:
            try:
                images[position] = decode(files[position], size).transpose(2, 0, 1)
            except MemoryError:
                raise
            except Exception as error:  # on broken bytes Pillow's decoders raise about anything
                bad[position] = reason(error)
        return len(portion)

    pool = ThreadPoolExecutor(threads())
    try:
        # disable=None: a bar on a terminal, nothing elsewhere.
        with tqdm(total=len(files), desc=title, unit=" images", disable=None) as bar:
            for done in pool.map(decode_some, range(0, len(files), FILES_AT_ONCE)):
                bar.update(done)
    finally:
        pool.shutdown(cancel_futures=True)  # on Ctrl-C, not after the remaining files
    return torch.from_numpy(images), dict(sorted(bad.items()))


def decode(path: Path, size: int) -> UInt8[np.ndarray, "h w 3"]:
    """Pixels of one file: the central square of `opened`, resized to `size`.

    Antialiased bilinear; torchvision's Resize and CenterCrop, without their rounding of the long side to whole pixels.

    Raises:
        Exception: of any kind, when the file cannot be read.
    """
    return np.asarray(ImageOps.fit(opened(path), (size, size), Image.Resampling.BILINEAR))


def opened(path: Path) -> Image.Image:
    """First frame of a file in RGB, turned upright by its EXIF orientation. Colour profiles are not applied.

    Raises:
        Exception: of any kind, when the file cannot be read.
    """
    with _file(path) as image:
        if Image.MAX_IMAGE_PIXELS and image.width * image.height > Image.MAX_IMAGE_PIXELS:
            raise ValueError(
                f"{image.width} x {image.height} pixels are more than Pillow's limit of {Image.MAX_IMAGE_PIXELS}"
            )
        if image.format == "PNG" and "transparency" in image.info:
            image.info["transparency"] = _in_pixels(image.info["transparency"], image.tile[0].args)
        if image.format == "TIFF":
            _check_levels(image)
        return to_rgb(ImageOps.exif_transpose(image))


def _check_levels(image: TiffImageFile) -> None:
    """Refuse grey of more than 8 bits that Pillow reads without a look at what its levels mean.

    Raises:
        ValueError: when they are of other than 16 bits, signed, or count from white.
    """
    if not image.mode.startswith("I"):
        return
    bits, sign, white_is_zero = (image.tag_v2.get(tag, usual) for tag, usual in ((258, 16), (339, 1), (262, 1)))
    bits, sign = (value[0] if isinstance(value, tuple) else value for value in (bits, sign))
    of_another_kind = {f"{bits} bits": bits != 16, "signed": bits == 16 and sign == 2, "0 is white": white_is_zero == 0}
    for kind, found in of_another_kind.items():
        if found:
            raise ValueError(f"grey levels of another kind ({kind}); save it with 8 bits, or 16 without sign, 0 black")


def raw_about(path: Path) -> tuple[tuple[int, int], str, str]:
    """Width and height, mode and format of a file, as it is stored.

    Raises:
        Exception: of any kind, when the file cannot be read.
    """
    with _file(path) as image:
        return image.size, image.mode, image.format


def orientation(path: Path) -> int:
    """EXIF's orientation of a file.

    Raises:
        Exception: of any kind, when the file cannot be read.
    """
    with _file(path) as image:
        return image.getexif().get(ORIENTATION, 1)


def _file(path: Path) -> Image.Image:
    """An image file, opened but not decoded.

    Raises:
        Exception: of any kind, when the file cannot be read.
    """
    check_regular(path)
    if path.stat().st_size == 0:
        raise ValueError("empty file")
    return Image.open(path, formats=FORMATS + _heif(path))


def _heif(path: Path) -> tuple[str, ...]:
    """The format of an iPhone's photographs, which another package reads.

    Raises:
        ValueError: for such a file where the package is missing.
    """
    if path.suffix.lower() not in HEIF_SUFFIXES:
        return ()
    try:
        from pillow_heif import register_heif_opener
    except ModuleNotFoundError:
        raise ValueError("HEIC, which pillow-heif reads: pip install pillow-heif") from None
    register_heif_opener()
    return ("HEIF",)


def is_image(path: Path) -> bool:
    """Returns True for an image file, by suffix or else first bytes. A file that cannot be opened counts as one."""
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        check_regular(path)
        Image.open(path, formats=FORMATS).close()
    except UnidentifiedImageError:
        return False
    except Exception:  # on broken bytes Pillow's decoders raise about anything
        return True
    return True


def _in_pixels(transparent: Any, coded: str) -> Any:
    """A PNG's transparent level or colour, which it gives in its own depth, as Pillow gives its pixels."""
    if coded in SPREAD:
        return transparent * SPREAD[coded]
    return tuple(level >> 8 for level in transparent) if coded == "RGB;16B" else transparent


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB from any mode: transparent pixels are blended with white, and 16-bit grey keeps its 8 high bits, rounded.

    Raises:
        ValueError: for floats, whose range is not known, and modes that Pillow cannot convert.
    """
    if image.mode == "I" or image.mode.startswith("I;16"):  # Pillow's own conversion clips at 255
        levels = np.asarray(image).astype(np.int64)
        shown = (levels * 255 + 32767) // 65535
        shown[levels == image.info.get("transparency")] = 255
        return Image.fromarray(shown.astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point grey levels; save it with 8 or 16 bits")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")


def reason(error: Exception) -> str:
    """The fault of a file that cannot be read, in a few words."""
    if isinstance(error, UnidentifiedImageError):  # Pillow's own text repeats the path
        return "not an image in a format that is read here"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).split("\n")[0] or type(error).__name__
