"""The first 128 images of COCO, where they are: a few steps of each engine, measured as all scenes are."""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from detector_cases import detector_params, training_params
from test_detection_levels import trained

from annulus.detection.average_precision import evaluate
from annulus.detection.coco import read_coco
from annulus.detection.engines import engine_of
from annulus.detection.tasks import check_engine
from annulus.errors import InputError

COCO128 = Path(__file__).resolve().parents[2] / "shared" / "data" / "coco128.tar"


@pytest.fixture(scope="module")
def coco(tmp_path_factory):
    if not COCO128.is_file():
        pytest.skip("no ../shared/data/coco128.tar beside the project")
    folder = tmp_path_factory.mktemp("coco128")
    with tarfile.open(COCO128) as archive:
        archive.extractall(folder, filter="data")
    return read_coco(folder / "annotations/instances_train2017.json", folder / "train2017", "masks", False)


@pytest.mark.parametrize("name", ["torchvision", "detectron2"])
def test_a_few_steps_on_coco_end_in_average_precision(name, coco):
    try:
        check_engine(name)
    except InputError as error:
        pytest.skip(str(error))
    some = replace(coco, pictures=coco.pictures[:8])
    params = detector_params(
        outputs="masks", flip=True, shorter=[64, 96], shorter_test=96, longer=128, anchors=[8, 16, 32, 64, 96]
    )
    found, loss = engine_of(name)(trained(), some, some, params, training_params(iterations=3, drops=[]), 0, None)
    numbers = evaluate(some, found)
    assert 0 < loss < 100
    assert {"box_ap_percent", "mask_ap_percent"} <= set(numbers)
    assert all(0 <= value <= 100 for value in numbers.values())
    assert {one.category for one in found} <= {category.id for category in coco.categories}
