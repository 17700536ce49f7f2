"""Checks COCO's two forms of a mask, polygons and run lengths, against the picture, before any decoding."""

from typing import Any

from faster_coco_eval import mask as coco_mask

from annulus_lab.studies.detection.faults import Refuse, Size, are_numbers, inside

LETTERS = 12  # of one compressed number, five bits each; more letters are malformed, and would grow without end


def checked_segmentation(shape: Any, size: Size, refuse: Refuse) -> list[list[float]] | dict[str, Any] | None:
    """Polygons or run lengths in a picture; None if there are none or they cover no pixel.

    Raises:
        InputError: for any other value.
    """
    if shape is None:
        return None
    if isinstance(shape, list):
        return _polygons(shape, size, refuse)
    if isinstance(shape, dict):
        return _run_lengths(shape, size, refuse)
    raise refuse("segmentation", shape, "polygons [[x1, y1, x2, y2, ...], ...] or run lengths {size, counts}")


def _polygons(polygons: list[Any], size: Size, refuse: Refuse) -> list[list[float]] | None:
    """Polygons of three points or more; the others are left out, as in Detectron2."""
    valid = []
    for polygon in polygons:
        if not are_numbers(polygon):
            raise refuse("segmentation", polygon, "polygons [[x1, y1, x2, y2, ...], ...] of finite numbers")
        if len(polygon) < 6 or len(polygon) % 2:
            continue
        if not inside(polygon[::2], polygon[1::2], size):
            raise refuse("segmentation", polygon, f"polygons in their picture of {size[0]} x {size[1]} pixels")
        valid.append([float(at) for at in polygon])
    if any(map(_doubled_area, valid)):
        return valid
    # A figure of eight encloses two areas of opposite signs. Then the pixels decide; this check is the slowest.
    width, height = size
    covers = bool(valid) and coco_mask.area(coco_mask.merge(coco_mask.frPyObjects(valid, height, width))) > 0
    return valid if covers else None


def _doubled_area(polygon: list[float]) -> float:
    """Twice the signed area of a polygon: the sum of x_i * y_(i + 1) - x_(i + 1) * y_i."""
    xs, ys = polygon[::2], polygon[1::2]
    return sum(x * ys[place] - xs[place] * y for place, (x, y) in enumerate(zip(xs, ys, strict=True), -len(xs) + 1))


def _run_lengths(shape: dict[str, Any], size: Size, refuse: Refuse) -> dict[str, Any] | None:
    """Run lengths: `size` (height, width) and `counts`, of runs without and with the object in turn, by columns."""
    width, height = size
    if shape.get("size") != [height, width]:
        raise refuse("segmentation", shape, f"run lengths of the size [{height}, {width}], the picture's own")
    counts = shape.get("counts")
    runs = _decompressed(counts) if isinstance(counts, str) else counts
    if not isinstance(runs, list) or set(map(type, runs)) != {int} or min(runs) < 0 or sum(runs) != width * height:
        raise refuse("segmentation", shape, f"counts that add up to the {width * height} pixels of the picture")
    return {"size": [height, width], "counts": counts} if any(runs[1::2]) else None


def _decompressed(letters: str) -> list[int] | None:
    """Numbers of COCO's compressed run lengths; None if they are malformed.

    A letter holds five bits, the lowest first, and a bit that marks a following letter. The highest bit of the last
    letter is the sign. From the fourth number on, each number is a difference to the last but one.
    """
    runs: list[int] = []
    number = shift = 0
    for letter in letters:
        bits = ord(letter) - ord("0")
        if not 0 <= bits < 64 or shift >= 5 * LETTERS:
            return None
        number |= (bits & 31) << shift
        shift += 5
        if bits & 32:
            continue
        if bits & 16:
            number -= 1 << shift
        runs.append(number + (runs[-2] if len(runs) > 2 else 0))
        number = shift = 0
    return runs if shift == 0 else None
