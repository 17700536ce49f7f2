"""Reader of Pascal VOC 2007: boxes, in one XML file for each image.

Source: Everingham et al. 2010, "The Pascal Visual Object Classes (VOC) challenge", IJCV 88.
"""

import logging
import reprlib
from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path, PurePath
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from annulus.errors import InputError
from annulus.files.regular import check_regular, read_text
from annulus_lab.studies.detection.annotated import Annotated, Category, Instance, Picture
from annulus_lab.studies.detection.faults import Size, check_empty, checked_box, ids_text, is_name, refused
from annulus_lab.studies.detection.image_files import check_files

log = logging.getLogger(__name__)

VOC_SPLITS = {"train": "trainval", "val": "test"}  # the protocol of VOC 2007
SIDES = ("xmin", "ymin", "xmax", "ymax")


def read_voc(root: Path, split: str, drop_empty: bool) -> Annotated:
    """Reads the images that root/ImageSets/Main/SPLIT.txt lists, numbered from 1 in its order.

    An image has the name of its XML file, as in VOC's devkit and in Detectron2; `<filename>` has its suffix. Categories
    are numbered from 1, sorted by name. Their names come from the files CLASS_SPLIT.txt beside it, or else from the
    objects. A file has the first and the last pixel of a box, counted from 1. A box here begins at the left edge of its
    first pixel: x = xmin - 1 and width = xmax - xmin + 1.

    Raises:
        InputError: when a file or an image has a fault, before any training.
    """
    listed = root / "ImageSets" / "Main" / f"{split}.txt"
    try:
        names = read_text(listed).split()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{listed} cannot be read ({getattr(error, 'strerror', None) or error}); {root} needs JPEGImages, "
            "Annotations and ImageSets/Main"
        ) from error
    twice = [name for name, count in Counter(names).items() if count > 1]
    if not names or twice:
        raise InputError(f"{listed} lists {ids_text(twice, 'image') + ' twice' if twice else 'no image'}; correct it")
    files = dict(enumerate((root / "Annotations" / f"{name}.xml" for name in names), 1))
    trees = {number: _tree(path) for number, path in files.items()}
    sizes = {
        number: (_integer(tree, "size/width", files[number]), _integer(tree, "size/height", files[number]))
        for number, tree in trees.items()
    }
    images = _images(listed, root, files, trees)
    check_files(listed, images, sizes)
    classes = {path.name.removesuffix(f"_{split}.txt") for path in listed.parent.glob(f"*_{split}.txt")}
    if not classes:
        classes = {
            _text(element, "name", files[number]) for number, tree in trees.items() for element in tree.iter("object")
        }
    if not all(map(is_name, classes)):
        raise InputError(f"{listed.parent} has lists *_{split}.txt of classes whose names are not UTF-8; rename them")
    numbers = {name: number for number, name in enumerate(sorted(classes), 1)}
    objects = {number: _instances(path, trees[number], sizes[number], numbers) for number, path in files.items()}
    empty = [path.name for number, path in files.items() for one in objects[number] if one is None]
    check_empty(listed, empty, "object", drop_empty)
    pictures = tuple(
        Picture(number, image, *sizes[number], tuple(one for one in objects[number] if one is not None), (), ())
        for number, image in images.items()
    )
    categories = tuple(Category(number, name, None) for name, number in numbers.items())
    return Annotated("voc", pictures, categories, skeleton=None, keypoint_names=None, flip_pairs=None)


def _images(listed: Path, root: Path, files: Mapping[int, Path], trees: Mapping[int, Element]) -> dict[int, Path]:
    """Image of each XML file; warns if `<filename>` names another image."""
    images, others = {}, []
    for number, path in files.items():
        file_name = PurePath(trees[number].findtext("filename", "").strip())
        images[number] = root / "JPEGImages" / f"{path.stem}{file_name.suffix or '.jpg'}"
        if file_name.name not in ("", images[number].name):
            others.append(path.name)
    if others:
        log.warning(
            "%s: %s with another <filename>; the image with the XML file's own name is used",
            listed,
            ids_text(others, "annotation"),
        )
    return images


def _instances(path: Path, tree: Element, size: Size, numbers: Mapping[str, int]) -> list[Instance | None]:
    """Objects of a file; None for an object without area."""
    instances: list[Instance | None] = []
    for element in tree.iter("object"):
        name = _text(element, "name", path)
        if name not in numbers:
            raise InputError(f"{path} has an object of {name!r}, not a class of this set ({', '.join(numbers)})")
        refuse = partial(refused, path, f"an object of {name!r}")
        xmin, ymin, xmax, ymax = (_integer(element, f"bndbox/{side}", path) for side in SIDES)
        box = checked_box([xmin - 1, ymin - 1, xmax - xmin + 1, ymax - ymin + 1], size, refuse)
        difficulty = element.findtext("difficult", "0").strip()
        if difficulty not in ("0", "1"):
            raise refuse("difficult", difficulty, "0 or 1")
        instances.append(box and Instance(box, numbers[name], box[2] * box[3], False, None, None, difficulty == "1"))
    return instances


def _tree(path: Path) -> Element:
    try:
        check_regular(path)
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError, LookupError, ValueError) as error:  # the last two: unknown encodings
        raise InputError(f"{path} is missing or no whole XML file ({error}); fetch it again") from error


def _text(tree: Element, place: str, path: Path) -> str:
    text = tree.findtext(place)
    if text is None or not is_name(text):
        raise InputError(f"{path} has no {place}; expected an annotation file of VOC 2007")
    return text.strip()


def _integer(tree: Element, place: str, path: Path) -> int:
    text = _text(tree, place, path)
    try:
        return round(float(text))  # some files of later years have decimals
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} has {reprlib.repr(text)} as {place}; expected a whole number of pixels") from error
