"""Average precision of boxes, masks and keypoints, in percent.

Matching and accumulation are faster-coco-eval's. A category without objects in all pictures does not enter a mean. A
number without any such category is left out.

Source: Lin et al. 2014, "Microsoft COCO: common objects in context", ECCV;
Gupta et al. 2019, "LVIS: a dataset for large vocabulary instance segmentation", CVPR.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from faster_coco_eval import COCO, COCOeval_faster
from faster_coco_eval import mask as coco_mask
from jaxtyping import Float

from annulus.files.results import Number
from annulus_lab.studies.detection.annotated import Annotated, Category, Detection
from annulus_lab.studies.detection.eleven_points import eleven_points
from annulus_lab.studies.detection.lvis import FREQUENCIES

# For each kind of annotations the compared shapes: faster-coco-eval's name, and the name in our numbers.
TASKS = {
    "boxes": {"bbox": "box"},
    "masks": {"bbox": "box", "segm": "mask"},
    "keypoints": {"bbox": "box", "keypoints": "keypoint"},
    "voc": {"bbox": "box"},
    "lvis": {"bbox": "box", "segm": "mask"},
}
MOST = {"bbox": 100, "segm": 100, "keypoints": 20}  # counted detections of one category in one picture, as in COCO
LVIS_DETECTIONS = 300  # of one picture, over all categories


def evaluate(truth: Annotated, detections: Sequence[Detection]) -> dict[str, Number]:
    """Average precision in percent, by name.

    `box_ap_percent`, `box_ap50_percent`, `box_ap75_percent`, and with `aps`, `apm`, `apl` for small, medium and large
    objects; the same of `mask` (masks, lvis) and, without sizes, of `keypoint`. LVIS also has `apr`, `apc`, `apf` of
    rare, common and frequent categories; VOC has `voc07_ap_percent`, 50 and 75 (see eleven_points.py).

    COCO counts up to 100 detections of a category in a picture (20 with keypoints), LVIS 300 of a picture. VOC's
    difficult objects are ignored, as COCO ignores objects of other sizes. Without detections the value is 0; with the
    truth as detections it is 100.
    """
    numbers: dict[str, Number] = {}
    for task, name in TASKS[truth.kind].items():
        evaluation = coco_evaluation(truth, detections, task)
        evaluation.evaluate()
        evaluation.accumulate()
        precision = evaluation.eval["precision"][..., -1]  # (thresholds, recalls, categories, sizes)
        numbers |= means(precision[:, :, :, 0], truth.categories, name)
        if task != "keypoints":
            for size, label in enumerate("sml", 1):
                numbers |= _mean(f"{name}_ap{label}_percent", precision[:, :, :, size])
    if truth.kind == "voc":
        numbers |= eleven_points(truth, detections)
    return numbers


def means(precision: Float[np.ndarray, "t r k"], categories: Sequence[Category], name: str) -> dict[str, float]:
    """AP over the thresholds 0.5, 0.55, ..., 0.95, at 0.5 and at 0.75, and of LVIS by frequency, in percent.

    Precision is -1 in the columns of categories that have no object; columns are in the order of ids.
    """
    numbers = _mean(f"{name}_ap_percent", precision)
    for threshold, row in ((50, 0), (75, 5)):
        numbers |= _mean(f"{name}_ap{threshold}_percent", precision[row])
    ordered = sorted(categories, key=lambda category: category.id)
    for frequency in FREQUENCIES:
        chosen = [place for place, category in enumerate(ordered) if category.frequency == frequency]
        numbers |= _mean(f"{name}_ap{frequency}_percent", precision[:, :, chosen])
    return numbers


def coco_evaluation(
    truth: Annotated, detections: Sequence[Detection], task: str, separate: bool = False
) -> COCOeval_faster:
    """faster-coco-eval, ready to run. With `separate` it keeps the matches of each picture, only for all sizes.

    Raises:
        ValueError: when a detection's picture or category is not annotated, its score is not finite, or it lacks the
            mask or keypoints that the task compares.
    """
    _check(truth, detections, task)
    if truth.kind == "lvis":
        detections = _counted_in_lvis(truth, detections)
    evaluation = _Ignoring(
        _coco(truth, _annotations(truth)),
        _coco(truth, _results(detections, task)),
        iouType=task,
        print_function=_silent,
        lvis_style=truth.kind == "lvis",
        separate_eval=separate,
    )
    evaluation.params.catIds = sorted(category.id for category in truth.categories)
    evaluation.params.maxDets = [LVIS_DETECTIONS if truth.kind == "lvis" else MOST[task]]
    if separate:
        evaluation.params.areaRng, evaluation.params.areaRngLbl = evaluation.params.areaRng[:1], ["all"]
    return evaluation


class _Ignoring(COCOeval_faster):
    """COCO evaluation that also ignores difficult objects; faster-coco-eval ignores only crowds."""

    def _prepare(self) -> None:
        super()._prepare()
        for annotation in self.cocoGt.anns.values():  # the data set refers to these
            if annotation["difficult"]:
                annotation["ignore"] = 1


def _mean(name: str, precision: np.ndarray) -> dict[str, float]:
    counted = precision[precision > -1]
    return {name: 100 * float(counted.mean())} if counted.size else {}


def _check(truth: Annotated, detections: Iterable[Detection], task: str) -> None:
    pictures = {picture.id for picture in truth.pictures}
    categories = {category.id for category in truth.categories}
    for detection in detections:
        known = detection.picture in pictures and detection.category in categories
        if not known or not math.isfinite(detection.score):
            raise ValueError(
                f"a detection in picture {detection.picture} of category {detection.category} has score "
                f"{detection.score}; pictures and categories must be annotated and scores finite"
            )
        if {"segm": detection.segmentation, "keypoints": detection.keypoints}.get(task, ()) is None:
            raise ValueError(f"a detection in picture {detection.picture} has no {task}, which {truth.kind} compare")


def _counted_in_lvis(truth: Annotated, detections: Sequence[Detection]) -> list[Detection]:
    """Best detections of each picture, without the categories that the picture does not list.

    lvis-api drops these after it took the best detections: nobody annotated them in the picture. Of equal scores the
    first detection counts. faster-coco-eval ends in an IndexError if a picture keeps no detection.
    """
    by_picture: dict[int, list[Detection]] = {picture.id: [] for picture in truth.pictures}
    for detection in detections:
        by_picture[detection.picture].append(detection)
    counted = []
    for picture in truth.pictures:
        listed = {*picture.negative, *(one.category for one in picture.instances)}
        best = sorted(by_picture[picture.id], key=lambda detection: -detection.score)[:LVIS_DETECTIONS]
        counted += [detection for detection in best if detection.category in listed]
    return counted


def _coco(truth: Annotated, annotations: list[dict[str, Any]]) -> COCO:
    """COCO data set of the annotations, numbered from 1: faster-coco-eval reads 0 as unmatched."""
    coco = COCO(print_function=_silent)
    coco.dataset = {
        "images": [
            {
                "id": picture.id,
                "width": picture.width,
                "height": picture.height,
                "neg_category_ids": list(picture.negative),
                "not_exhaustive_category_ids": list(picture.not_exhaustive),
            }
            for picture in truth.pictures
        ],
        "categories": [
            {"id": category.id, "name": category.name, "frequency": category.frequency} for category in truth.categories
        ],
        "annotations": [{**annotation, "id": number} for number, annotation in enumerate(annotations, 1)],
    }
    coco.createIndex()
    return coco


def _annotations(truth: Annotated) -> list[dict[str, Any]]:
    return [
        {
            "image_id": picture.id,
            "category_id": instance.category,
            "bbox": list(instance.box),
            "area": instance.area,
            "iscrowd": int(instance.crowd),
            "difficult": instance.difficult,
        }
        | ({} if instance.segmentation is None else {"segmentation": instance.segmentation})
        | _points(instance.keypoints)
        for picture in truth.pictures
        for instance in picture.instances
    ]


def _points(keypoints: tuple[float, ...] | None) -> Mapping[str, Any]:
    if keypoints is None:
        return {}
    return {"keypoints": list(keypoints), "num_keypoints": sum(seen > 0 for seen in keypoints[2::3])}


def _results(detections: Sequence[Detection], task: str) -> list[dict[str, Any]]:
    """Detections in COCO's format; `area` is the mask's area for masks, else the box's."""
    return [
        {
            "image_id": detection.picture,
            "category_id": detection.category,
            "bbox": list(detection.box),
            "score": detection.score,
            "area": float(coco_mask.area(detection.segmentation))
            if task == "segm"
            else detection.box[2] * detection.box[3],
            "iscrowd": 0,
        }
        | ({"segmentation": detection.segmentation} if task == "segm" else {})
        | ({"keypoints": list(detection.keypoints)} if task == "keypoints" and detection.keypoints is not None else {})
        for detection in detections
    ]


def _silent(*lines: object) -> None:
    """Prints nothing; it silences faster-coco-eval, which prints each step."""
