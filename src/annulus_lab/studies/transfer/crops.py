"""Boxes of photographs as images: one box a photograph for `aircraft`, each annotated object for `mscoco`."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64, UInt8
from PIL import Image
from torch import Tensor

from annulus.datasets.decode import opened, reason
from annulus.datasets.source import Source
from annulus.device.threads import threads
from annulus_lab.studies.transfer.layouts import read_annotations

LARGEST = 2**31  # of a coordinate, in pixels
SCALE = 1.2  # of a box of mscoco, around its middle

BoxEdges = Float[np.ndarray, "4"]  # x and y of the upper left corner, width and height


def open_mscoco(root: Path, image_size: int) -> dict[str, Source]:
    """Opens boxes of train2017 for training and of val2017 for testing; classes are categories with training boxes.

    Crops follow Meta-Dataset's converter: the box grows 1.2 times around its middle and is cut at the image's edges.
    Resizing does not keep its ratio.

    Source: Triantafillou et al. 2020, arXiv:1903.03096, Section 3.1.
    """
    files = (root / f"annotations/instances_{split}2017.json" for split in ("train", "val"))
    *parts, names = read_annotations(*files)
    present = sorted({box["category_id"] for box in parts[0].annotations})
    known, classes = {category: label for label, category in enumerate(present)}, [names[one] for one in present]
    sources = {}
    for split, folder, part in zip(("train", "test"), ("train2017", "val2017"), parts, strict=True):
        if not (root / folder).is_dir():
            raise FileNotFoundError(f"no folder {folder}")
        boxes = [box for box in part.annotations if box["category_id"] in known]
        labels = torch.tensor([known[box["category_id"]] for box in boxes], dtype=torch.int64)
        paths = [f"{folder}/{part.images[box['image_id']]}" for box in boxes]
        sources[split] = source_from_boxes(root, paths, _edges(boxes), labels, classes, image_size)
    return sources


def source_from_boxes(
    root: Path,
    paths: Sequence[str],
    boxes: Float[np.ndarray, "n 4"],
    labels: Int64[Tensor, " n"],
    classes: Sequence[str],
    image_size: int,
) -> Source:
    """Split whose images are boxes of files; a file with several boxes is decoded once."""

    def read(rows: Int64[Tensor, " k"]) -> tuple[UInt8[Tensor, "k 3 h w"], Mapping[int, str]]:
        images = np.zeros((len(rows), 3, image_size, image_size), np.uint8)
        bad: dict[int, str] = {}
        boxes_by_file = defaultdict(list)
        for place, row in enumerate(rows.tolist()):
            boxes_by_file[paths[row]].append((place, boxes[row]))

        def cut(path: str) -> None:
            places = [place for place, _ in boxes_by_file[path]]
            with _bad_files(bad, places, path):
                image = opened(root / path)
                for place, box in boxes_by_file[path]:
                    with _bad_files(bad, [place], path):
                        images[place] = cropped(image, box, image_size).transpose(2, 0, 1)

        with ThreadPoolExecutor(threads()) as pool:
            list(pool.map(cut, boxes_by_file))
        return torch.from_numpy(images), dict(sorted(bad.items()))

    return Source(tuple(classes), labels, read)


@contextmanager
def _bad_files(bad: dict[int, str], places: Sequence[int], path: str) -> Iterator[None]:
    """Context that records an unreadable file under these places."""
    try:
        yield
    except MemoryError:
        raise
    except Exception as error:  # Pillow's decoders raise many kinds of errors for broken bytes
        bad.update(dict.fromkeys(places, f"{path} ({reason(error)})"))


def scaled(box: BoxEdges) -> BoxEdges:
    """Box scaled by `SCALE`, around the same middle."""
    x, y, width, height = box
    return np.array([x - (SCALE - 1) / 2 * width, y - (SCALE - 1) / 2 * height, SCALE * width, SCALE * height])


def cropped(image: Image.Image, box: BoxEdges, size: int) -> UInt8[np.ndarray, "h w 3"]:
    """Crop of an image to its box, `size` pixels a side.

    COCO counts from a pixel's corner and Pillow names whole pixels, so half a pixel is subtracted before rounding.

    Raises:
        ValueError: when the box holds no pixel of the image.
    """
    x, y, width, height = box
    left, top = (max(round(start - 0.5), 0) for start in (x, y))
    right = min(round(x + width - 0.5) + 1, image.width)
    bottom = min(round(y + height - 0.5) + 1, image.height)
    if right <= left or bottom <= top:
        raise ValueError(f"no pixel lies in the box {box.round(1).tolist()}")
    return np.asarray(image.crop((left, top, right, bottom)).resize((size, size), Image.Resampling.BILINEAR))


def _edges(boxes: Sequence[Mapping[str, Any]]) -> Float[np.ndarray, "n 4"]:
    """Scaled boxes of the annotations.

    Raises:
        ValueError: when a box does not hold numbers of pixels.
    """
    edges = np.array([box["bbox"] for box in boxes], dtype=float).reshape(-1, 4)
    if not (np.abs(edges) < LARGEST).all():
        number = int(np.flatnonzero(~(np.abs(edges) < LARGEST).all(axis=1))[0])
        raise ValueError(f"annotation {boxes[number].get('id')} has the bbox {boxes[number]['bbox']}, expected pixels")
    return np.array([scaled(box) for box in edges]).reshape(-1, 4)
