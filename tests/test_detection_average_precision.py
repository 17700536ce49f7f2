"""Average precision against known values, against pycocotools, and VOC's against a plain reference."""

import contextlib
import io
from dataclasses import replace

import numpy as np
import pytest
from detection_cases import annotated, as_detections, boxed, detect, filled, random_case
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from annulus_lab.studies.detection.annotated import run_lengths
from annulus_lab.studies.detection.average_precision import evaluate
from annulus_lab.studies.detection.bootstrap import resampled

# Means over the first ten of `lvis_case`, by lvis-api 0.5.3.
LVIS_API = {"box_ap": 16.39275691062965, "box_ap50": 42.76203616240744, "box_apr": 11.459463835038965}
LVIS_API |= {"mask_ap": 16.94037399376654, "mask_apc": 16.278797687461054, "mask_apf": 19.823380545472126}
TWO = [boxed(0, 0, 40, 40), boxed(60, 60, 40, 20, category=2)]


@pytest.mark.parametrize("kind", ["boxes", "masks", "voc", "lvis"])
def test_the_truth_as_detections_has_100_percent_and_no_detections_have_0(kind):
    truth = annotated(kind, TWO, [boxed(5, 5, 100, 100)], categories=("f", "f") if kind == "lvis" else (None, None))
    everything, nothing = evaluate(truth, as_detections(truth)), evaluate(truth, [])
    assert set(everything.values()) == {100.0}
    assert set(nothing.values()) == {0.0}
    assert everything.keys() == nothing.keys() >= {"box_ap_percent", "box_ap50_percent", "box_ap75_percent"}
    assert ("mask_ap_percent" in everything) == (kind in ("masks", "lvis"))


def test_what_need_not_be_found_enters_no_mean_whether_it_is_found_or_not():
    """Cases: a category without an object, a crowd, a difficult object, and a person without a labelled point."""
    truth = annotated("boxes", TWO, categories=(None,) * 3)
    detections = [*as_detections(truth), detect(0, 0, 9, 9, category=3)]
    assert evaluate(truth, detections)["box_ap_percent"] == pytest.approx(100)
    assert evaluate(annotated("boxes", [], []), [detect(0, 0, 9, 9)]) == {}
    for kind, others in (("boxes", {"crowd": True}), ("voc", {"difficult": True})):
        truth = annotated(kind, [boxed(0, 0, 40, 40), boxed(60, 60, 40, 40, **others)])
        both = [detect(0, 0, 40, 40, score=0.5), detect(60, 60, 40, 40, score=0.9)]
        assert evaluate(truth, both[:1])["box_ap_percent"] == evaluate(truth, both)["box_ap_percent"] == 100, kind
    for visible, expected in ((1.0, pytest.approx(100)), (0.0, None)):  # a hidden point is labelled
        points = (50.0, 50.0, visible) + (0.0, 0.0, 0.0) * 16
        truth = annotated("keypoints", [replace(boxed(0, 0, 99, 99), keypoints=points)])
        assert evaluate(truth, as_detections(truth)).get("keypoint_ap_percent") == expected


@pytest.mark.parametrize(("name", "key"), [("box", "bbox"), ("mask", "segmentation"), ("keypoint", "keypoints")])
def test_the_numbers_are_those_of_pycocotools(name, key):
    truth, detections = random_case("keypoints" if name == "keypoint" else "masks", seed=0)
    if name == "mask":  # smaller than its box
        boxes = [tuple(map(int, one.box)) for one in detections]
        masks = [run_lengths(filled(x, y, wide, high * 4 // 5)) for x, y, wide, high in boxes]
        detections = [replace(one, segmentation=mask) for one, mask in zip(detections, masks, strict=True)]
    numbers = evaluate(truth, detections)
    labels = ("", "50", "75", *("sml" if name != "keypoint" else ""))
    theirs = zip(labels, pycoco(truth, detections, key), strict=False)
    expected = {f"{name}_ap{label}_percent": 100 * value for label, value in theirs}
    assert 0 < numbers["box_ap_percent"] < 100
    assert {label: numbers.get(label, -100.0) for label in expected} == pytest.approx(expected, abs=1e-9)


def pycoco(truth, detections, key):
    """Statistics of pycocotools for the values under this key, in its own order."""
    gt, instances = COCO(), [(picture.id, one) for picture in truth.pictures for one in picture.instances]
    gt.dataset = {
        "images": [{"id": picture.id, "width": picture.width, "height": picture.height} for picture in truth.pictures],
        "categories": [{"id": category.id} for category in truth.categories],
        "annotations": [
            coco_record(one) | {"id": number, "image_id": picture, "iscrowd": int(one.crowd), "area": one.area}
            for number, (picture, one) in enumerate(instances, 1)
        ],
    }
    results = [
        {"image_id": one.picture, "score": one.score, "category_id": one.category, key: coco_record(one)[key]}
        for one in detections
    ]
    with contextlib.redirect_stdout(io.StringIO()):
        gt.createIndex()
        evaluation = COCOeval(gt, gt.loadRes(results), key.replace("segmentation", "segm"))
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats


def coco_record(one):
    record = {"category_id": one.category, "bbox": list(one.box), "segmentation": one.segmentation}
    return record | {"keypoints": one.keypoints, "num_keypoints": np.count_nonzero((one.keypoints or ())[2::3])}


@pytest.mark.parametrize(
    ("kind", "number", "most"), [("boxes", "box", 100), ("masks", "mask", 100), ("keypoints", "keypoint", 20)]
)
def test_of_a_category_the_100_best_detections_in_a_picture_count_and_20_with_keypoints(kind, number, most):
    here, there = ((at, at, 2.0) * 17 if kind == "keypoints" else None for at in (20.0, 95.0))
    truth = annotated(kind, [replace(boxed(0, 0, 40, 40), keypoints=here)])
    wrong = [replace(detect(80, 80, 30, 30, score=0.9), keypoints=there)] * most
    right = as_detections(truth, score=0.5)
    last, one_more = (evaluate(truth, [*some, *right])[f"{number}_ap50_percent"] for some in (wrong[1:], wrong))
    assert (last, one_more) == (pytest.approx(100 / most), 0)


def test_eleven_points_are_those_of_a_plain_reference():
    truth, detections = random_case("voc", seed=0)
    hard = np.random.default_rng(0)
    pictures = [
        replace(p, instances=tuple(replace(o, crowd=False, difficult=hard.random() < 0.2) for o in p.instances))
        for p in truth.pictures
    ]
    truth = replace(truth, pictures=tuple(pictures))
    at = {n: np.mean([eleven(truth, detections, c.id, n) for c in truth.categories]) for n in range(50, 100, 5)}
    expected = {"_ap50": at[50], "_ap75": at[75], "_ap": np.mean(list(at.values()))}
    numbers = evaluate(truth, detections)
    assert {name: numbers[f"voc07{name}_percent"] / 100 for name in expected} == pytest.approx(expected)


@pytest.mark.parametrize("hits", [3, 6, 7])
def test_three_of_ten_objects_are_a_recall_of_three_tenths_and_not_less_as_in_detectron2(hits):
    truth = annotated("voc", [boxed(0, 0, 40, 40)], *[[boxed(0, 0, 40, 40)]] * 9)
    value = evaluate(truth, as_detections(truth)[:hits])["voc07_ap50_percent"]
    assert value == pytest.approx(100 * (hits + 1) / 11)
    theirs = sum(hits / 10 >= recall for recall in np.arange(0.0, 1.1, 0.1))
    assert value == pytest.approx(100 * (theirs + 1) / 11)


def eleven(truth, detections, category, percent):
    """Slow and plain on purpose: the definition of VOC 2007, object by object."""
    objects = {p.id: [o for o in p.instances if o.category == category] for p in truth.pictures}
    total = sum(not o.difficult for some in objects.values() for o in some)
    taken, hits, misses, curve = set(), 0, 0, []
    for one in sorted((d for d in detections if d.category == category), key=lambda d: -d.score):
        overlap, best = max(((share(one.box, o.box), n) for n, o in enumerate(objects[one.picture])), default=(0, None))
        if overlap <= percent / 100:
            misses += 1
        elif not objects[one.picture][best].difficult:
            misses += (one.picture, best) in taken
            hits += (one.picture, best) not in taken
            taken.add((one.picture, best))
        curve.append((hits, hits / max(hits + misses, 1)))
    return sum(max([p for h, p in curve if 10 * h >= tenths * total], default=0) for tenths in range(11)) / 11


def share(a, b):
    across = max(min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]), 0)
    down = max(min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]), 0)
    return across * down / (a[2] * a[3] + b[2] * b[3] - across * down)


def test_a_detection_elsewhere_without_a_score_or_without_what_is_compared_is_refused():
    truth = annotated("boxes", TWO, categories=(None, None))
    for wrong in ({"picture": 7}, {"category": 7}, {"score": float("nan")}):
        with pytest.raises(ValueError, match="pictures and categories must be annotated and scores finite"):
            evaluate(truth, [detect(0, 0, 9, 9, **wrong)])
    for kind, task in (("masks", "segm"), ("keypoints", "keypoints")):
        truth, detections = random_case(kind, 0)
        with pytest.raises(ValueError, match=f"has no {task}, which {kind} compare"):
            evaluate(truth, [replace(detections[0], segmentation=None, keypoints=None)])


# LVIS: unknown categories do not count.


def rates(detections, categories=("f", "f", "c"), **known):
    truth = annotated("lvis", TWO, [boxed(0, 0, 30, 30)], categories=categories, **known)
    return evaluate(truth, [*as_detections(truth, score=0.5), *detections])


def test_a_false_detection_counts_only_where_the_category_is_known_to_be_absent_or_labelled_throughout():
    wrong = detect(0, 60, 30, 30, picture=2, category=2)
    assert rates([wrong])["mask_ap_percent"] == 100  # category 2 is unknown in picture 2
    numbers = rates([wrong], negative={2: (2,)})
    assert numbers["mask_ap_percent"] == numbers["box_ap_percent"] == pytest.approx((100 + 50) / 2)
    further = detect(80, 0, 30, 30, picture=1, category=1)
    assert rates([further])["box_ap_percent"] < 100
    assert rates([further], not_exhaustive={1: (1,)})["box_ap_percent"] == 100


def test_rare_common_and_frequent_categories_have_their_own_means():
    wrong = detect(0, 60, 30, 30, picture=2, category=2)
    numbers = rates([wrong], categories=("r", "f", "c"), negative={2: (2,)})
    assert (numbers["mask_apr_percent"], numbers["mask_apf_percent"]) == (100, pytest.approx(50))
    assert {"box_apr_percent", "box_apf_percent"} <= numbers.keys()
    assert "box_apc_percent" not in numbers, "no picture shows one"
    truth = annotated("lvis", TWO, [boxed(0, 0, 30, 30)], categories=("r", "f", "c"), negative={2: (2,)})
    turned, detections = replace(truth, categories=truth.categories[::-1]), [*as_detections(truth, score=0.5), wrong]
    assert evaluate(turned, detections) == numbers, "in whatever order a file lists them"


def test_of_a_picture_the_300_best_detections_count_over_all_categories():
    truth = annotated("lvis", TWO, categories=("f", "f"))
    right = as_detections(truth, score=0.5)
    better = [detect(0, 0, 9, 9, category=1, score=0.9)] * 299
    assert evaluate(truth, [*better, *right])["box_ap_percent"] < 50
    assert evaluate(truth, [*better, right[1]])["box_apf_percent"] == 50  # it is the 300th
    assert evaluate(truth, [*better, better[0], right[1]])["box_apf_percent"] == 0
    worse = [replace(one, score=0.1) for one in [*better, better[0]]]
    assert evaluate(truth, [*worse, *right])["box_ap_percent"] == 100, "the best, not the first of the file"


def lvis_case(seed):
    """A random set in which pictures list some categories as absent or labelled in part; some have no objects."""
    truth, detections = random_case("lvis", seed)
    draw = np.random.default_rng(seed)
    pictures = []
    for picture in truth.pictures:
        present = {one.category for one in picture.instances}
        negative = tuple(category for category in range(1, 5) if category not in present and draw.random() < 0.3)
        partly = tuple(category for category in sorted(present) if draw.random() < 0.3)
        pictures.append(replace(picture, negative=negative, not_exhaustive=partly))
        detections += [] if present else [replace(one, picture=picture.id) for one in detections[:2]]
    categories = [replace(one, frequency=name) for one, name in zip(truth.categories, "rcff", strict=True)]
    return replace(truth, pictures=tuple(pictures), categories=tuple(categories)), detections


def test_detections_of_categories_that_a_picture_does_not_list_are_dropped_as_lvis_api_drops_them():
    """In most of these sets a picture without an object has no other detections."""
    cases = [lvis_case(seed) for seed in range(10)]
    numbers = [evaluate(*case) for case in cases]
    means = {name: np.mean([each[f"{name}_percent"] for each in numbers]) for name in LVIS_API}
    assert means == pytest.approx(LVIS_API, abs=1e-9)
    for truth, detections in cases:
        resampled(truth, detections, 2)
