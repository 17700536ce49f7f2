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
from annulus.files.regular import NotFetched, check_regular

# Pillow's full list also holds formats that start other programs (EPS) or are not for photographs.
FORMATS = ("PNG", "JPEG", "WEBP", "AVIF", "JPEG2000", "BMP", "GIF", "TIFF", "PPM")
SUFFIXES = {".png", ".jpg", ".jpeg", ".jfif", ".webp", ".avif", ".jp2", ".j2k", ".bmp", ".gif", ".tif", ".tiff"}
SUFFIXES |= {".ppm", ".pgm", ".pbm"}
SUFFIXES |= {".heic", ".heif", ".hif"}
SUFFIXES |= {".jxl", ".psd", ".svg", ".dng", ".cr2", ".nef", ".arw"}  # counted as images, though they cannot be read
HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"hevm", b"hevs", b"mif1", b"msf1"}
ORIENTATION = 0x0112  # EXIF's tag; 1: upright
SPREAD = {"L;2": 85, "L;4": 17}  # factors by which Pillow spreads a PNG's 2- or 4-bit grey levels over 0 to 255
FILES_AT_ONCE = 64  # of a thread: enough to make its start cheap


def decode_files(files: Sequence[Path], size: int, title: str) -> tuple[UInt8[Tensor, "n 3 h w"], Mapping[int, str]]:
    """Decodes files to squares of `size` pixels. Also returns the reasons of unreadable files (black) by position.

    Threads decode in parallel, since Pillow releases Python's lock. Beside the result, memory holds one decoded file
    per thread.
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
        pool.shutdown(cancel_futures=True)  # on Ctrl-C, without the remaining files
    return torch.from_numpy(images), dict(sorted(bad.items()))


def decode(path: Path, size: int) -> UInt8[np.ndarray, "h w 3"]:
    """Decodes one file: the central square of `opened`, resized to `size`.

    The resize is antialiased bilinear. It equals torchvision's Resize and CenterCrop without the rounding of the long
    side to whole pixels.

    Raises:
        Exception: of any kind, if the file cannot be read.
    """
    return np.asarray(ImageOps.fit(opened(path), (size, size), Image.Resampling.BILINEAR))


def opened(path: Path) -> Image.Image:
    """First frame of a file in RGB, turned upright by its EXIF orientation. Colour profiles are ignored.

    Raises:
        Exception: of any kind, if the file cannot be read.
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
    """Checks grey of more than 8 bits, since Pillow ignores the type of its levels.

    Raises:
        ValueError: unless the levels have 16 bits, without sign, and 0 is black.
    """
    if not image.mode.startswith("I"):
        return
    bits, sign, white_is_zero = (image.tag_v2.get(tag, default) for tag, default in ((258, 16), (339, 1), (262, 1)))
    bits, sign = (value[0] if isinstance(value, tuple) else value for value in (bits, sign))
    faults = {f"{bits} bits": bits != 16, "signed": bits == 16 and sign == 2, "0 is white": white_is_zero == 0}
    for fault, present in faults.items():
        if present:
            raise ValueError(f"grey levels of another kind ({fault}); save it with 8 bits, or 16 without sign, 0 black")


def raw_about(path: Path) -> tuple[tuple[int, int], str, str]:
    """Width and height, mode and format of a file as stored.

    Raises:
        Exception: of any kind, if the file cannot be read.
    """
    with _file(path) as image:
        return image.size, image.mode, image.format


def orientation(path: Path) -> int:
    """EXIF orientation of a file.

    Raises:
        Exception: of any kind, if the file cannot be read.
    """
    with _file(path) as image:
        return image.getexif().get(ORIENTATION, 1)


def _file(path: Path) -> Image.Image:
    """Opens an image file without decoding it.

    Raises:
        Exception: of any kind, if the file cannot be read.
    """
    check_regular(path)
    if path.stat().st_size == 0:
        raise ValueError("empty file")
    return Image.open(path, formats=FORMATS + _heif(path))


def _heif(path: Path) -> tuple[str, ...]:
    """Registers the reader of HEIC, the format of an iPhone's photographs, if the file's first bytes name it.

    Raises:
        ValueError: for such a file if the package pillow-heif is missing.
    """
    with path.open("rb") as file:
        start = file.read(12)
    if start[4:8] != b"ftyp" or start[8:] not in HEIF_BRANDS:
        return ()
    try:
        from pillow_heif import register_heif_opener
    except ModuleNotFoundError:
        raise ValueError("HEIC, which pillow-heif reads: pip install pillow-heif") from None
    register_heif_opener()
    return ("HEIF",)


def is_image(path: Path) -> bool:
    """Returns True for an image file, by suffix or else by its first bytes, and for a file that cannot be opened.

    A pointer of Git LFS is an image if its suffix is one.
    """
    if path.suffix.lower() in SUFFIXES:
        return True
    try:
        check_regular(path)
        Image.open(path, formats=FORMATS + _heif(path)).close()
    except (UnidentifiedImageError, NotFetched):
        return False
    except Exception:  # on broken bytes Pillow's decoders raise about anything
        return True
    return True


def _in_pixels(transparent: Any, coded: str) -> Any:
    """Scales a PNG's transparent level or colour from the file's depth to the depth of Pillow's pixels."""
    if coded in SPREAD:
        return transparent * SPREAD[coded]
    return tuple(level >> 8 for level in transparent) if coded == "RGB;16B" else transparent


def to_rgb(image: Image.Image) -> Image.Image:
    """Converts any mode to RGB: transparent pixels are blended with white, and 16-bit grey is rounded to 8 bits.

    Raises:
        ValueError: for floats, since their range is unknown, and modes that Pillow cannot convert.
    """
    if image.mode == "I" or image.mode.startswith("I;16"):  # Pillow's conversion clips at 255
        levels = np.asarray(image).astype(np.int64)
        grey = (levels * 255 + 32767) // 65535
        grey[levels == image.info.get("transparency")] = 255
        return Image.fromarray(grey.astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise ValueError("floating-point grey levels; save it with 8 or 16 bits")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", layer.size, "white"), layer)
    return image.convert("RGB")


def reason(error: Exception) -> str:
    """Short reason why a file cannot be read."""
    if isinstance(error, UnidentifiedImageError):  # Pillow's text repeats the path
        return "not an image in a format that is read here"
    if isinstance(error, NotFetched):
        return "a pointer of Git LFS; run `git lfs pull`"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return str(error).split("\n")[0] or type(error).__name__
