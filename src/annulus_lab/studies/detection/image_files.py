"""Checks that the images of an annotation file exist and have the annotated sizes."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from annulus.datasets.decode import FORMATS, ORIENTATION, reason
from annulus.errors import InputError
from annulus_lab.studies.detection.faults import Size, ids_text

SIDEWAYS = (5, 6, 7, 8)  # EXIF's orientations of images that lie on their side
THREADS = 8


def check_files(source: Path, files: Mapping[int, Path], sizes: Mapping[int, Size]) -> None:
    """Checks that every image's file exists and has the annotated width and height; reads no pixels.

    Raises:
        InputError: with number and names of the files that fail.
    """
    missing = [str(file)[:300] for file in files.values() if not _is_there(file)]
    if missing:
        raise InputError(
            f"{source}: {ids_text(missing, 'image')} of {len(files)} not on the disk; unpack the images there"
        )
    with ThreadPoolExecutor(THREADS) as pool:
        faults = [fault for fault in pool.map(_fault, files.values(), sizes.values()) if fault is not None]
    if faults:
        raise InputError(f"{source}: {ids_text(faults, 'image')} unlike its annotations; fetch the images again")


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name that is too long
        return False


def _fault(file: Path, size: Size) -> str | None:
    try:
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if image.getexif().get(ORIENTATION) in SIDEWAYS:  # the reader turns it upright
                width, height = height, width
    except Exception as error:  # Pillow's decoders raise many kinds of errors for broken bytes
        return f"{file}: {reason(error)}"
    if (width, height) == size:
        return None
    return f"{file}: {width} x {height} pixels where {size[0]} x {size[1]} are annotated"
