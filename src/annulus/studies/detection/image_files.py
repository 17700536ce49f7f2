"""Checks that an annotation file's images exist and have the sizes that it states."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from PIL import Image

from annulus.datasets.decode import FORMATS, ORIENTATION, reason
from annulus.errors import InputError
from annulus.studies.detection.faults import Size, counted

SIDEWAYS = (5, 6, 7, 8)  # EXIF's orientations of images that lie on their side
THREADS = 8


def check_files(source: Path, files: Mapping[int, Path], sizes: Mapping[int, Size]) -> None:
    """Every image's file is there and has the width and height of its annotation; of pixels nothing is read.

    Raises:
        InputError: naming and counting the files that do not.
    """
    missing = [str(file)[:300] for file in files.values() if not _is_there(file)]
    if missing:
        raise InputError(
            f"{source}: {counted(missing, 'image')} of {len(files)} not on the disk; unpack the images there"
        )
    with ThreadPoolExecutor(THREADS) as pool:
        faults = [fault for fault in pool.map(_fault, files.values(), sizes.values()) if fault is not None]
    if faults:
        raise InputError(f"{source}: {counted(faults, 'image')} unlike its annotations; fetch the images again")


def _is_there(file: Path) -> bool:
    try:
        return file.is_file()
    except OSError:  # a name that is too long
        return False


def _fault(file: Path, size: Size) -> str | None:
    try:
        with Image.open(file, formats=FORMATS) as image:
            width, height = image.size
            if image.getexif().get(ORIENTATION) in SIDEWAYS:  # it is turned upright when it is read
                width, height = height, width
    except Exception as error:  # on broken bytes Pillow's decoders raise about anything
        return f"{file}: {reason(error)}"
    if (width, height) == size:
        return None
    return f"{file}: {width} x {height} pixels where {size[0]} x {size[1]} are annotated"
