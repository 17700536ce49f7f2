"""The first 128 images of COCO, if present: read whole, and a few steps of each engine, measured like all scenes."""

import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from detector_cases import detector_params, training_params
from test_detection_levels import trained

from annulus.errors import InputError
from annulus_lab.studies.detection.annotated import Detection, decode_mask, run_lengths
from annulus_lab.studies.detection.average_precision import evaluate
from annulus_lab.studies.detection.coco import read_coco
from annulus_lab.studies.detection.detector_runs import load_engine
from annulus_lab.studies.detection.tasks import check_engine

COCO128 = Path(__file__).resolve().parents[2] / "shared" / "data" / "coco128.tar"
pytestmark = [
    pytest.mark.skipif(not COCO128.is_file(), reason="no ../shared/data/coco128.tar beside the project"),
    pytest.mark.skipif(not hasattr(tarfile, "data_filter"), reason="Python before 3.11.4"),
]


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    folder = tmp_path_factory.mktemp("coco128")
    with tarfile.open(COCO128) as archive:
        archive.extractall(folder, filter="data")
    return read_coco(folder / "annotations/instances_train2017.json", folder / "train2017", "masks", False)


def test_it_is_read_whole_and_its_truth_as_detections_has_100_percent(coco):
    objects = [(picture, one) for picture in coco.pictures for one in picture.instances]
    assert (len(coco.pictures), len(objects), len(coco.categories)) == (128, 939, 80)
    crowds = [one.segmentation for _, one in objects if one.crowd]
    assert {type(one) for one in crowds} == {dict}
    ratios = [decode_mask(one, p.height, p.width).sum() / one.area for p, one in objects if one.area > 200]
    assert np.median(ratios) == pytest.approx(1, abs=0.02)  # areas of the file: some polygons overlap
    detections = [
        Detection(p.id, one.category, one.box, 1.0, run_lengths(decode_mask(one, p.height, p.width)), None)
        for p, one in objects
        if not one.crowd
    ]
    numbers = evaluate(coco, detections)
    assert numbers["box_ap_percent"] == numbers["mask_ap_percent"] == 100


@pytest.mark.parametrize("name", ["torchvision", "detectron2"])
def test_a_few_steps_end_in_average_precision(name, coco):
    try:
        check_engine(name)
    except InputError as error:
        pytest.skip(str(error))
    some = replace(coco, pictures=coco.pictures[:4])
    sizes = {"shorter": [64, 96], "shorter_test": 96, "longer": 128, "anchors": [8, 16, 32, 64, 96]}
    params, training = detector_params(outputs="masks", flip=True, **sizes), training_params(iterations=2, drops=[])
    detections, loss = load_engine(name)(trained(), some, some, params, training, 0, None)
    numbers = evaluate(some, detections)
    assert 0 < loss < 100
    assert all(0 <= numbers[f"{kind}_ap_percent"] <= 100 for kind in ("box", "mask"))
    assert {one.category for one in detections} <= {category.id for category in coco.categories}
