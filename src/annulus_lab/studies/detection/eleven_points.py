"""Average precision as VOC 2007 defines it: the mean of precision at eleven recalls.

Source: Everingham et al. 2010, "The Pascal Visual Object Classes (VOC) challenge", IJCV 88.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from annulus_lab.studies.detection.annotated import Annotated, Detection, Instance

THRESHOLDS = np.arange(50, 100, 5)  # of intersection over union, in percent


class Matches(NamedTuple):
    """Detections of one category with their matches, best score first."""

    pictures: Int[np.ndarray, " d"]  # positions in the truth
    right: Bool[np.ndarray, "d t"]  # by threshold
    wrong: Bool[np.ndarray, "d t"]  # neither right nor wrong: a match of a difficult object
    objects: Int[np.ndarray, " n"]  # in each picture, without the difficult ones


def eleven_points(truth: Annotated, detections: Sequence[Detection]) -> dict[str, float]:
    """AP at the thresholds 0.5 and 0.75, and `voc07_ap_percent`: the mean over 0.5, 0.55, ..., 0.95, Detectron2's AP.

    VOC uses only the overlap of one half. The papers used Detectron2, which rounds boxes to tenths of a pixel. It
    compares recalls with numpy's 3 * 0.1 = 0.30000000000000004 (and 0.6, 0.7 alike). There 3 of 10 objects do not reach
    the recall of 0.3; here they do.
    """
    once = np.ones(len(truth.pictures), dtype=np.int64)
    return mean_precisions([match_detections(truth, detections, category.id) for category in truth.categories], once)


def mean_precisions(matches: Sequence[Matches], counts: Int[np.ndarray, " n"]) -> dict[str, float]:
    """Means over categories, with the pictures weighted by `counts`; empty without objects."""
    by_category = [precision for one in matches if (precision := average(one, counts)) is not None]
    if not by_category:
        return {}
    mean = 100 * np.mean(by_category, axis=0)
    return {
        "voc07_ap_percent": float(mean.mean()),
        "voc07_ap50_percent": float(mean[0]),
        "voc07_ap75_percent": float(mean[5]),
    }


def average(matches: Matches, counts: Int[np.ndarray, " n"]) -> Float[np.ndarray, " t"] | None:
    """Average precision at each threshold; None without objects.

    The precision at a recall is the highest one of the k best detections, over all k with that recall or more.
    """
    objects = int((matches.objects * counts).sum())
    if objects == 0:
        return None
    weight = counts[matches.pictures][:, None]
    right, wrong = np.cumsum(matches.right * weight, axis=0), np.cumsum(matches.wrong * weight, axis=0)
    precision = right / np.maximum(right + wrong, 1)
    total = np.zeros(len(THRESHOLDS))
    for tenths in range(11):  # whole numbers, since 3 * 0.1 > 0.3: 3 of 10 objects are a recall of 0.3
        reached = 10 * right >= tenths * objects
        total += np.where(reached, precision, 0.0).max(axis=0, initial=0.0)
    return total / 11


def match_detections(truth: Annotated, detections: Sequence[Detection], category: int) -> Matches:
    """Matches detections to objects: in order of score, each takes the object of largest overlap above the threshold.

    A detection is right if no better one took its object, and wrong otherwise; for a difficult object it is neither.
    """
    place = {picture.id: position for position, picture in enumerate(truth.pictures)}
    ours = [detection for detection in detections if detection.category == category]
    ours.sort(key=lambda detection: -detection.score)
    objects = [[one for one in picture.instances if one.category == category] for picture in truth.pictures]
    taken = [np.zeros((len(some), len(THRESHOLDS)), dtype=bool) for some in objects]
    right = np.zeros((len(ours), len(THRESHOLDS)), dtype=bool)
    wrong = np.ones_like(right)
    for row, detection in enumerate(ours):
        position = place[detection.picture]
        if not objects[position]:
            continue
        overlaps = np.array([_overlap(detection, one) for one in objects[position]])
        best = int(overlaps.argmax())
        meets = 100 * overlaps[best] > THRESHOLDS
        if objects[position][best].difficult:
            wrong[row] = ~meets
        else:
            right[row] = meets & ~taken[position][best]
            wrong[row] = ~right[row]
            taken[position][best] |= meets
    return Matches(
        np.array([place[detection.picture] for detection in ours], dtype=np.int64),
        right,
        wrong,
        np.array([sum(not one.difficult for one in some) for some in objects], dtype=np.int64),
    )


def _overlap(detection: Detection, instance: Instance) -> float:
    """Intersection over union of two boxes."""
    (x, y, width, height), (left, top, wide, high) = detection.box, instance.box
    across = min(x + width, left + wide) - max(x, left)
    down = min(y + height, top + high) - max(y, top)
    if across <= 0 or down <= 0:
        return 0.0
    return across * down / (width * height + wide * high - across * down)
