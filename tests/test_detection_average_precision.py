"""Average precision against cases whose value is known, against pycocotools, and VOC's against a plain reference."""

import contextlib
import io
from dataclasses import replace

import numpy as np
import pytest
from detection_cases import annotated, boxed, found, random_case
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from annulus.detection.annotated import Detection
from annulus.detection.average_precision import evaluate

TWO = [boxed(0, 0, 40, 40), boxed(60, 60, 40, 20, category=2)]


def as_detections(truth, score=0.9):
    return [
        Detection(picture.id, one.category, one.box, score, one.segmentation, one.keypoints)
        for picture in truth.pictures
        for one in picture.instances
    ]


@pytest.mark.parametrize("kind", ["boxes", "masks", "voc", "lvis"])
def test_the_truth_as_detections_has_100_percent_and_no_detections_have_0(kind):
    truth = annotated(kind, TWO, [boxed(5, 5, 100, 100)], categories=("f", "f") if kind == "lvis" else (None, None))
    everything, nothing = evaluate(truth, as_detections(truth)), evaluate(truth, [])
    assert set(everything.values()) == {100.0}
    assert set(nothing.values()) == {0.0}
    assert everything.keys() == nothing.keys() >= {"box_ap_percent", "box_ap50_percent", "box_ap75_percent"}
    assert ("mask_ap_percent" in everything) == (kind in ("masks", "lvis"))


def test_a_box_that_covers_seven_tenths_is_right_at_five_of_ten_thresholds():
    truth = annotated("boxes", [boxed(0, 0, 100, 100)])
    numbers = evaluate(truth, [found(0, 0, 100, 70)])  # right at 0.5, 0.55, 0.6, 0.65 and 0.7
    assert numbers == {
        "box_ap_percent": pytest.approx(50),
        "box_ap50_percent": pytest.approx(100),
        "box_ap75_percent": 0,
        "box_apl_percent": pytest.approx(50),
    }


def test_a_second_detection_of_an_object_is_wrong():
    truth = annotated("boxes", [boxed(0, 0, 40, 40), boxed(60, 60, 40, 40)])
    once = [found(0, 0, 40, 40, score=0.9), found(60, 60, 40, 40, score=0.7)]
    twice = [*once, found(0, 0, 40, 40, score=0.8)]
    # Precision is 1 up to a recall of a half, at 51 of 101 recalls, and 2 of 3 behind it.
    assert evaluate(truth, once)["box_ap50_percent"] == pytest.approx(100)
    assert evaluate(truth, twice)["box_ap50_percent"] == pytest.approx(100 * (51 + 50 * 2 / 3) / 101)


def test_a_category_without_an_object_enters_no_mean_even_where_it_was_detected():
    truth = annotated("boxes", TWO, categories=(None,) * 3)
    detections = [*as_detections(truth), found(0, 0, 9, 9, category=3)]
    assert evaluate(truth, detections)["box_ap_percent"] == pytest.approx(100)
    assert evaluate(annotated("boxes", [], []), [found(0, 0, 9, 9)]) == {}


def test_a_crowd_and_a_difficult_object_may_be_found_or_not():
    for kind, others in (("boxes", {"crowd": True}), ("voc", {"difficult": True})):
        truth = annotated(kind, [boxed(0, 0, 40, 40), boxed(60, 60, 40, 40, **others)])
        alone = [found(0, 0, 40, 40, score=0.5)]
        both = [*alone, found(60, 60, 40, 40, score=0.9)]
        assert evaluate(truth, alone)["box_ap_percent"] == evaluate(truth, both)["box_ap_percent"] == 100, kind


def test_a_person_with_hidden_points_counts_and_one_without_labelled_points_does_not():
    for visible, expected in ((1.0, pytest.approx(100)), (0.0, None)):
        points = (50.0, 50.0, visible) + (0.0, 0.0, 0.0) * 16
        truth = annotated("keypoints", [replace(boxed(0, 0, 99, 99), keypoints=points)])
        assert evaluate(truth, as_detections(truth)).get("keypoint_ap_percent") == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["masks", "keypoints"])
def test_the_numbers_are_those_of_pycocotools(kind, seed):
    truth, detections = random_case(kind, seed)
    numbers = evaluate(truth, detections)
    assert 0 < numbers["box_ap_percent"] < 100
    for task, name in {"masks": {"bbox": "box", "segm": "mask"}, "keypoints": {"keypoints": "keypoint"}}[kind].items():
        theirs = pycoco(truth, detections, task)
        labels = ("ap", "ap50", "ap75") + (("aps", "apm", "apl") if task != "keypoints" else ())
        expected = {f"{name}_{label}_percent": 100 * value for label, value in zip(labels, theirs, strict=False)}
        shown = {label: numbers.get(label, -100.0) for label in expected}
        assert shown == pytest.approx(expected, abs=1e-9)


def pycoco(truth, detections, task):
    """The statistics of pycocotools, in its own order."""
    gt, results = COCO(), []
    gt.dataset = {
        "images": [{"id": picture.id, "width": picture.width, "height": picture.height} for picture in truth.pictures],
        "categories": [{"id": category.id} for category in truth.categories],
        "annotations": [],
    }
    for picture in truth.pictures:
        for one in picture.instances:
            record = {"id": len(gt.dataset["annotations"]) + 1, "image_id": picture.id, "category_id": one.category}
            record |= {"bbox": list(one.box), "area": one.area, "iscrowd": int(one.crowd)}
            record |= {"segmentation": one.segmentation}
            if one.keypoints is not None:
                record |= {"keypoints": list(one.keypoints)}
                record |= {"num_keypoints": int(np.count_nonzero(one.keypoints[2::3]))}
            gt.dataset["annotations"].append(record)
    for one in detections:
        record = {"image_id": one.picture, "category_id": one.category, "score": one.score}
        record |= {"segmentation": one.segmentation} if task == "segm" else {"bbox": list(one.box)}
        results.append(record | ({"keypoints": list(one.keypoints)} if task == "keypoints" else {}))
    with contextlib.redirect_stdout(io.StringIO()):
        gt.createIndex()
        evaluation = COCOeval(gt, gt.loadRes(results), task)
        evaluation.evaluate()
        evaluation.accumulate()
        evaluation.summarize()
    return evaluation.stats


def test_eleven_points_are_those_of_a_plain_reference():
    for seed in range(4):
        truth, detections = random_case("voc", seed)
        hard = np.random.default_rng(seed)
        pictures = tuple(
            replace(p, instances=tuple(replace(o, crowd=False, difficult=hard.random() < 0.2) for o in p.instances))
            for p in truth.pictures
        )
        truth = replace(truth, pictures=pictures)
        numbers = evaluate(truth, detections)
        for percent in (50, 75):
            averages = [eleven(truth, detections, category.id, percent) for category in truth.categories]
            assert numbers[f"voc07_ap{percent}_percent"] == pytest.approx(100 * np.mean(averages)), (seed, percent)
        every = [eleven(truth, detections, c.id, at) for c in truth.categories for at in range(50, 100, 5)]
        assert numbers["voc07_ap_percent"] == pytest.approx(100 * np.mean(every))


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
            if (one.picture, best) in taken:
                misses += 1
            else:
                taken.add((one.picture, best))
                hits += 1
        curve.append((hits, hits / max(hits + misses, 1)))
    return sum(max([p for h, p in curve if 10 * h >= tenths * total], default=0) for tenths in range(11)) / 11


def share(a, b):
    across = max(min(a[0] + a[2], b[0] + b[2]) - max(a[0], b[0]), 0)
    down = max(min(a[1] + a[3], b[1] + b[3]) - max(a[1], b[1]), 0)
    return across * down / (a[2] * a[3] + b[2] * b[3] - across * down)


def test_three_of_ten_objects_reach_a_recall_of_three_tenths():
    truth = annotated("voc", [boxed(10 * place, 0, 9, 9) for place in range(10)])
    numbers = evaluate(truth, [found(10 * place, 0, 9, 9) for place in range(3)])
    assert numbers["voc07_ap50_percent"] == pytest.approx(100 * 4 / 11)  # recalls 0, 0.1, 0.2 and 0.3


def test_a_detection_elsewhere_or_without_a_score_is_refused():
    truth = annotated("boxes", TWO, categories=(None, None))
    for wrong in (found(0, 0, 9, 9, picture=7), found(0, 0, 9, 9, category=7), found(0, 0, 9, 9, score=float("nan"))):
        with pytest.raises(ValueError, match="pictures and categories must be annotated and scores finite"):
            evaluate(truth, [wrong])


@pytest.mark.parametrize(("kind", "task"), [("masks", "segm"), ("keypoints", "keypoints")])
def test_a_detection_without_what_is_compared_is_refused(kind, task):
    truth, detections = random_case(kind, 0)
    with pytest.raises(ValueError, match=f"has no {task}, which {kind} compare"):
        evaluate(truth, [replace(detections[0], segmentation=None, keypoints=None)])


# LVIS: what is not known is not counted.


def rates(detections, negative=None, not_exhaustive=None, categories=("f", "f", "c")):
    truth = annotated(
        "lvis", TWO, [boxed(0, 0, 30, 30)], categories=categories, negative=negative, not_exhaustive=not_exhaustive
    )
    return evaluate(truth, [*as_detections(truth, score=0.5), *detections])


def test_a_false_detection_counts_only_where_the_category_is_known_to_be_absent():
    wrong = found(0, 60, 30, 30, picture=2, category=2, score=0.9)
    assert rates([wrong])["mask_ap_percent"] == 100  # nobody looked for category 2 in picture 2
    numbers = rates([wrong], negative={2: (2,)})
    assert numbers["mask_ap_percent"] == numbers["box_ap_percent"] == pytest.approx((100 + 50) / 2)


def test_a_further_detection_does_not_count_where_the_category_was_not_labelled_throughout():
    further = found(80, 0, 30, 30, picture=1, category=1, score=0.9)
    assert rates([further])["box_ap_percent"] < 100
    assert rates([further], not_exhaustive={1: (1,)})["box_ap_percent"] == 100


def test_rare_common_and_frequent_categories_have_their_own_means():
    numbers = rates([], categories=("r", "f", "c"))
    assert {name for name in numbers if name.startswith("box_ap")} >= {"box_apr_percent", "box_apf_percent"}
    assert "box_apc_percent" not in numbers, "no picture shows one"
    wrong = found(0, 60, 30, 30, picture=2, category=2, score=0.9)
    numbers = rates([wrong], categories=("r", "f", "c"), negative={2: (2,)})
    assert (numbers["mask_apr_percent"], numbers["mask_apf_percent"]) == (100, pytest.approx(50))


def test_of_a_picture_the_300_best_detections_count_over_all_categories():
    truth = annotated("lvis", [boxed(0, 0, 40, 40), boxed(60, 60, 40, 20, category=2)], categories=("f", "f"))
    right = as_detections(truth, score=0.5)
    better = [found(0, 0, 9, 9, category=1, score=0.9)] * 299
    assert evaluate(truth, [*better, *right])["box_ap_percent"] < 50
    assert evaluate(truth, [*better, right[1]])["box_apf_percent"] == 50  # it is the 300th
    assert evaluate(truth, [*better, better[0], right[1]])["box_apf_percent"] == 0
