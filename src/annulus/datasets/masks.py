"""Images with a class for each pixel, in the common export format of NYU-v2.

The files are root/SPLIT/images/NAME.* and root/SPLIT/labels/NAME.png, with SPLIT train and test. A label's pixel is its
class; 255 is ignored. The images have no classes.
"""

from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from PIL import Image, ImageOps
from torch import Tensor

from annulus.datasets.decode import SPREAD, opened, orientation, reason
from annulus.datasets.folder import composed, entries, files_source, join_names, select_images
from annulus.datasets.source import FileList, Source, encoded
from annulus.errors import InputError
from annulus.files.images import IGNORED

LAYOUT = "{train,test}/images/NAME.jpg and {train,test}/labels/NAME.png"
ANY = ("any",)  # the only class of the images


def open_masks(dataset: str, root: Path, image_size: int) -> dict[str, Source]:
    """Lists both splits, without reading the images.

    Raises:
        InputError: if the root is missing or has another layout, an image has no label, or a label has no image.
    """
    folders = [root / split / kind for split in ("train", "test") for kind in ("images", "labels")]
    if missing := [str(folder) for folder in folders if not folder.is_dir()]:
        raise InputError(f"datasets.{dataset}.root: {join_names(missing)} is not a folder; {root} needs {LAYOUT}")
    return {split: _listed(root, split, image_size) for split in ("train", "test")}


def _listed(root: Path, split: str, image_size: int) -> Source:
    images, labels = (_by_stem(root / split / kind) for kind in ("images", "labels"))
    for these, those, lack in ((images, labels, "label in labels/"), (labels, images, "image in images/")):
        if alone := [name for stem, name in these.items() if stem not in those]:
            raise InputError(
                f"{root / split}: {len(alone)} of {len(these)} files have no {lack} of the same name: "
                f"{join_names(alone)}; add them, or remove these"
            )
    if not images:
        raise InputError(f"{root / split / 'images'} holds no images; {root} needs {LAYOUT}")
    none = torch.zeros(len(images), dtype=torch.int64)
    pictures = FileList(root, [f"{split}/images"], none, encoded(list(images.values())))
    masks = FileList(root, [f"{split}/labels"], none, encoded([labels[stem] for stem in images]))

    def read_masks(rows: Int64[Tensor, " k"]) -> UInt8[Tensor, "k h w"]:
        masks_read = [_mask(masks[row], pictures[row], image_size) for row in rows.tolist()]
        return torch.from_numpy(np.stack(masks_read))

    source = files_source(ANY, none, pictures, image_size, split)
    return Source(source.classes, source.labels, source.read, read_masks=read_masks)


def _by_stem(folder: Path) -> Mapping[str, str]:
    """File names of images by name without suffix, in natural order."""
    stems = {
        name: composed(Path(name).stem) for name in select_images(folder, [entry.name for entry in entries(folder)])
    }
    if twice := [stem for stem, count in Counter(stems.values()).items() if count > 1]:
        raise InputError(
            f"{folder} has several files named {join_names(twice)}; an image has one label, so keep one of each"
        )
    return {stem: name for name, stem in stems.items()}


def _mask(label: Path, image: Path, size: int) -> UInt8[np.ndarray, "h w"]:
    """Reads the central square of a label, cut as in `decode`; a resized pixel has the class of the nearest one.

    Raises:
        InputError: if the label cannot be read, is not one plane of at most 255 classes, or has another size than its
            image; if the image is turned by EXIF.
    """
    try:
        with Image.open(label, formats=["PNG"]) as opened_label:
            coded = opened_label.tile[0].args
            opened_label.load()
            plane, shape, turned = opened_label.copy(), opened(image).size, orientation(image)
    except Exception as error:  # on broken bytes Pillow's decoders raise about anything
        raise InputError(f"{label} cannot be read ({reason(error)}); export it as PNG again") from error
    if turned in range(2, 9):
        raise InputError(
            f"{image} is turned by its EXIF orientation {turned}, and {label.name} is not; save the "
            "image upright, without the orientation"
        )
    if coded in SPREAD:
        plane = plane.point(lambda level: level // SPREAD[coded])
    if plane.mode not in ("L", "P", "I", "I;16"):
        raise InputError(f"{label} has pixels of mode {plane.mode}, expected one class a pixel: a grey or indexed PNG")
    if (most := int(np.asarray(plane).max())) > IGNORED:
        raise InputError(
            f"{label} has a pixel of class {most}; classes are 0 to 254, and 255 is ignored: export fewer classes (13 "
            "or 40 of NYU-v2)"
        )
    if plane.size != shape:
        raise InputError(
            f"{label} has {plane.width} x {plane.height} pixels, its image {image.name} {shape[0]} x {shape[1]}; "
            "export both at one size"
        )
    grey = Image.fromarray(np.asarray(plane).astype(np.uint8))  # an indexed label's numbers, not their colours
    return np.asarray(ImageOps.fit(grey, (size, size), Image.Resampling.NEAREST))
