"""Pascal VOC 2007: boxes, in one XML file for each image.

Source: Everingham et al. 2010, "The Pascal Visual Object Classes (VOC) challenge", IJCV 88.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

from annulus.detection.annotated import Annotated, Category, Instance, Picture
from annulus.detection.image_files import check_files
from annulus.detection.records import check_empty, counted
from annulus.errors import InputError

VOC_SPLITS = {"train": "trainval", "val": "test"}  # the protocol of VOC 2007


def read_voc(root: Path, split: str, drop_empty: bool) -> Annotated:
    """The images that root/ImageSets/Main/SPLIT.txt lists, numbered from 1 in its order.

    Categories are numbered from 1, sorted by name: those of the files CLASS_SPLIT.txt beside it where there are any,
    else those of the objects. A file gives the first and last pixel of a box, counted from 1; a box here begins at the
    left edge of its first pixel: x = xmin - 1 and width = xmax - xmin + 1.

    Raises:
        InputError: when the folder cannot be trained on, before anything is trained.
    """
    listed = root / "ImageSets" / "Main" / f"{split}.txt"
    try:
        names = listed.read_text(encoding="utf-8").split()
    except OSError as error:
        raise InputError(
            f"{listed} cannot be read ({error.strerror}); {root} needs JPEGImages, Annotations and ImageSets/Main"
        ) from error
    twice = [name for name, count in Counter(names).items() if count > 1]
    if not names or twice:
        raise InputError(f"{listed} lists {counted(twice, 'image') + ' twice' if twice else 'no image'}; correct it")
    files = [root / "Annotations" / f"{name}.xml" for name in names]
    trees = {path: _tree(path) for path in files}
    classes = {path.name.removesuffix(f"_{split}.txt") for path in listed.parent.glob(f"*_{split}.txt")}
    if not classes:
        classes = {_text(found, "name", path) for path, tree in trees.items() for found in tree.iter("object")}
    numbers = {name: number for number, name in enumerate(sorted(classes), 1)}
    pictures = tuple(_picture(id, root, path, trees[path], numbers) for id, path in enumerate(files, 1))
    check_files(listed, pictures)
    _check_empty(listed, trees, drop_empty)
    categories = tuple(Category(number, name, None) for name, number in numbers.items())
    return Annotated("voc", pictures, categories, skeleton=None, keypoint_names=None, flip_pairs=None)


def _picture(id: int, root: Path, path: Path, tree: Element, numbers: Mapping[str, int]) -> Picture:
    return Picture(
        id=id,
        file=root / "JPEGImages" / _text(tree, "filename", path),
        width=_whole(tree, "size/width", path),
        height=_whole(tree, "size/height", path),
        instances=tuple(
            _instance(found, path, numbers) for found in tree.iter("object") if min(_sides(found, path)) > 0
        ),
        negative=(),
        not_exhaustive=(),
    )


def _instance(found: Element, path: Path, numbers: Mapping[str, int]) -> Instance:
    name = _text(found, "name", path)
    if name not in numbers:
        raise InputError(f"{path} has an object of {name!r}, which is no class of this set ({', '.join(numbers)})")
    width, height = _sides(found, path)
    x, y = (_whole(found, f"bndbox/{side}", path) - 1 for side in ("xmin", "ymin"))
    difficult = found.findtext("difficult", "0").strip() == "1"
    box = (float(x), float(y), float(width), float(height))
    return Instance(box, numbers[name], float(width * height), False, None, None, difficult)


def _sides(found: Element, path: Path) -> tuple[int, int]:
    """Width and height of an object's box."""
    xmin, ymin, xmax, ymax = (_whole(found, f"bndbox/{side}", path) for side in ("xmin", "ymin", "xmax", "ymax"))
    return xmax - xmin + 1, ymax - ymin + 1


def _check_empty(listed: Path, trees: Mapping[Path, Element], drop_empty: bool) -> None:
    """Objects without area are refused, or left out with a warning."""
    empty = [path.name for path, tree in trees.items() for found in tree.iter("object") if min(_sides(found, path)) < 1]
    check_empty(listed, empty, "object", drop_empty)


def _tree(path: Path) -> Element:
    try:
        return ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError) as error:
        raise InputError(f"{path} is missing or no whole XML file ({error}); fetch it again") from error


def _text(tree: Element, place: str, path: Path) -> str:
    text = tree.findtext(place)
    if text is None or not text.strip():
        raise InputError(f"{path} has no {place}; expected an annotation file of VOC 2007")
    return text.strip()


def _whole(tree: Element, place: str, path: Path) -> int:
    text = _text(tree, place, path)
    try:
        return round(float(text))  # some files of later years have decimals
    except (ValueError, OverflowError) as error:
        raise InputError(f"{path} has {text!r} as {place}; expected a whole number of pixels") from error
