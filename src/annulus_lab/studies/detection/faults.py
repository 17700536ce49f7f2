"""Checks of the values of annotation files, and the sentences that refuse them."""

import logging
import reprlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import Box

log = logging.getLogger(__name__)

Refuse = Callable[[str, Any, str], InputError]  # for one entry: key, value and expectation -> error
Size = tuple[int, int]  # width and height of a picture

# Pixels by which a box, polygon or point may leave its picture. COCO's boxes are rounded to hundredths, and some tools
# count pixels from 1, others from 0. Detectron2 cuts every box to the picture.
SLACK = 1
LARGEST = 2**31  # coordinates and areas, in pixels
INTEGERS = 2**63  # ids, which faster-coco-eval keeps in 64 bits


def refused(path: Path, entry: str, key: str, value: Any, expected: str) -> InputError:
    """Error for one value: its place, its shortened content, and the expectation."""
    return InputError(f"{path}: {entry} has the {key} {reprlib.repr(value)}; expected {expected}")


def is_id(value: Any) -> bool:
    return type(value) is int and abs(value) < INTEGERS


def is_name(value: Any) -> bool:
    """Returns True for text that UTF-8 can write; JSON also has escapes for halves of characters."""
    return isinstance(value, str) and bool(value.strip()) and value.encode("utf-8", "ignore").decode() == value


def are_numbers(values: Any) -> bool:
    """Returns True for a list of finite numbers; NaN fails every comparison."""
    return (
        isinstance(values, list)
        and set(map(type, values)) <= {int, float}
        and all(-LARGEST <= value <= LARGEST for value in values)
    )


def inside(xs: Sequence[int | float], ys: Sequence[int | float], size: Size) -> bool:
    """Returns True if all points lie in the picture, or outside by at most `SLACK`."""
    return min(min(xs), min(ys)) >= -SLACK and max(xs) <= size[0] + SLACK and max(ys) <= size[1] + SLACK


def checked_box(box: Any, size: Size, refuse: Refuse) -> Box | None:
    """x, y, width and height of a box; None if the box has no area in the picture.

    Raises:
        InputError: when the box is not four finite numbers, or leaves the picture.
    """
    if not are_numbers(box) or len(box) != 4:
        raise refuse("bbox", box, "x, y, width and height in pixels")
    x, y, width, height = map(float, box)
    if not inside((x, x + width), (y, y + height), size):
        raise refuse("bbox", box, f"a box in its picture of {size[0]} x {size[1]} pixels; cut it to the picture")
    if min(x + width, size[0]) <= max(x, 0) or min(y + height, size[1]) <= max(y, 0):
        return None
    return x, y, width, height


def check_empty(path: Path, empty: Sequence[Any], what: str, drop: bool) -> None:
    """Raises InputError for objects without area, with their ids; with `drop` logs a warning instead."""
    if empty and not drop:
        raise InputError(
            f"{path}: {ids_text(empty, what)} without area, which no detector can find; correct them, or leave "
            "them out with drop_empty: true"
        )
    if empty:
        log.warning("%s: %s without area left out", path, ids_text(empty, what))


def ids_text(ids: Sequence[Any], what: str) -> str:
    """Number of ids, and the first three: "2 annotations (5, 7)"."""
    examples = ", ".join(str(id) for id in ids[:3]) + (", ..." if len(ids) > 3 else "")
    return f"{len(ids)} {what}{'' if len(ids) == 1 else 's'} ({examples})"
