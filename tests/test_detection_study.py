"""The study of detection: the papers' configurations, known runs, and all tasks at scale tiny."""

import itertools
from argparse import Namespace

import numpy as np
import pytest
import yaml
from by_path import read_yaml, script
from declared import ROOT
from detector_cases import beside_transfer, encoder
from stated import stated_params

from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.evals.intervals import over_seeds
from annulus_lab.studies.detection import detector_runs as transfer
from annulus_lab.studies.detection import fitting
from annulus_lab.studies.detection.detected import gain, metrics_row, precision
from annulus_lab.studies.detection.detection_tables import rows
from annulus_lab.studies.detection.detector_runs import evaluate_detector
from annulus_lab.studies.detection.layouts import write_scenes
from annulus_lab.studies.detection.scenes_params import SceneParams
from annulus_lab.studies.detection.splits import read_splits
from annulus_lab.studies.detection.tasks import check_engine, detector_settings, task_settings
from annulus_lab.studies.shared.study import MainStudy

PARAMS = ROOT / "stages/detection/params.yaml"
NUMBERS = {"coco": "mask", "coco-c4": "mask", "keypoints": "keypoint", "voc": "voc07", "lvis": "mask"}  # by task
TRAINED = {
    "method": "ir",
    "split": "none",
    "bound": "infonce",
    "sampler": "ring",
    "neighbours": "none",
    "dataset": "shapes",
}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Function that changes the study's params.yaml, beside transfer's, by keys such as tasks__coco."""
    monkeypatch.chdir(tmp_path)
    own = beside_transfer(tmp_path)

    def change(**changes):
        content = read_yaml(PARAMS)
        for key, value in changes.items():
            place, (*sections, last) = content, key.split("__")
            for section in sections:
                place = place[section]
            place[last] = value
        own.write_text(yaml.safe_dump(content))
        return MainStudy(stated_params(tmp_path / "root.yaml"), own)

    return change


@pytest.mark.parametrize(
    ("name", "outputs", "neck", "frozen", "iterations", "drops", "proposals"),
    [  # Detectron2's configuration files of these names
        ("mask-rcnn-fpn", "masks", "fpn", True, 90000, [60000, 80000], [2000, 1000]),
        ("mask-rcnn-c4", "masks", "c4", True, 90000, [60000, 80000], [12000, 2000]),
        ("keypoint-rcnn-fpn", "keypoints", "fpn", True, 90000, [60000, 80000], [2000, 1500]),
        ("faster-rcnn-c4", "boxes", "c4", True, 18000, [12000, 16000], [12000, 2000]),
        ("fine-tuned-r50-fpn-2x", "masks", "fpn", False, 180000, [120000, 160000], [2000, 1000]),
        ("fine-tuned-voc-c4", "boxes", "c4", False, 24000, [18000, 22000], [12000, 2000]),
    ],
)
def test_a_configuration_is_the_papers(name, outputs, neck, frozen, iterations, drops, proposals, study):
    detector, training = detector_settings(study(scale="paper"), name)
    training = training.scaled()
    assert (detector.outputs, detector.neck, detector.frozen) == (outputs, neck, frozen)
    assert (training.batch_size, training.iterations, training.drops) == (16, iterations, drops)
    assert (training.learning_rate, detector.proposals_train) == (pytest.approx(0.02), proposals)


@pytest.mark.parametrize("scale", ["tiny", "demo", "paper"])
def test_every_task_has_settings_at_every_scale(scale, study):
    scaled = study(scale=scale)
    assert [task_settings(scaled, task)["task"] for task in NUMBERS] == list(NUMBERS)


def test_lvis_repeats_rare_categories_and_eqco_trains_12_epochs_at_a_batch_of_16(study):
    paper = study(scale="paper")
    detector, training = detector_settings(paper, "lvis-mask-rcnn-fpn")
    assert (detector.score_threshold, detector.detections, training.repeat_threshold) == (1e-4, 300, 0.001)
    training = detector_settings(paper, "fine-tuned-eqco")[1].scaled()
    assert training.learning_rate == pytest.approx(0.02)
    epochs = [steps * 16 / 118287 for steps in (*training.drops, training.iterations)]
    assert epochs == pytest.approx([7, 11, 12], abs=1e-3)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tasks__coco__configuration": "mask-rcn-fpn"}, r"has no 'mask-rcn-fpn'; did you mean 'mask-rcnn-fpn'"),
        ({"tasks__coco__kind": "mask"}, r"tasks.coco: kind: 'mask' refused"),
        ({"tasks__coco__configuration": "faster-rcnn-c4"}, "finds boxes, which scenes of kind masks do not have"),
        ({"scales__demo__training": {"iterations": 0}}, "iterations: 0 refused"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(changes, sentence, study):
    with pytest.raises(InputError, match=sentence):
        task_settings(study(**changes), "coco")


def test_an_unknown_engine_is_refused_with_the_nearest(monkeypatch):
    with pytest.raises(InputError, match="'torchvison' is none of torchvision, detectron2; did you mean 'torchvision'"):
        check_engine("torchvison")
    monkeypatch.setattr("annulus_lab.studies.detection.tasks.find_spec", lambda _: None)
    with pytest.raises(InputError, match=r"detectron2 is not installed here; build it as https://detectron2.readthe"):
        check_engine("detectron2")
    check_engine("torchvision")


def runs(values, resampled=True):
    """Runs of some seeds whose numbers on each of 30 draws differ from their own by +-1, the same in all runs."""
    draws = {seed: [value, *(value + np.resize([1.0, -1.0], 30))] for seed, value in enumerate(values)}
    return {
        seed: {"ap": {"box_ap_percent": one[0]}, "resampled": {"box_ap_percent": one} if resampled else {}, "loss": 1.0}
        for seed, one in draws.items()
    }


def test_a_gain_is_paired_by_seed_and_by_draw_of_the_pictures():
    one, base = runs([20.0, 26.0, 23.0]), runs([10.0, 16.5, 13.1])
    assert precision(one, "box_ap_percent").mean == pytest.approx(23)
    assert precision(one, "box_ap_percent").variance >= 1, "what the pictures add"
    above = gain(one, base, "box_ap_percent")
    assert above.mean == pytest.approx(np.mean([10, 9.5, 9.9]))
    assert above.variance == pytest.approx(np.var([10, 9.5, 9.9], ddof=1) / 3), "shared draws cancel"
    plain = gain(runs([20.0, 26.0], False), runs([10.0, 16.5], False), "box_ap_percent")
    assert plain == over_seeds([10.0, 9.5])


def test_the_table_has_a_row_for_each_number_and_variant_with_its_gains():
    variants = {"main": runs([20.0, 26.0]), "uniform": runs([12.0, 18.0]), "untrained": runs([11.0, 17.5])}
    own = {"configuration": "c", "engine": "torchvision", "scale": "tiny", "seeds": 2}
    table = list(rows({"coco": own | metrics_row(variants)}, TRAINED))
    names = ("number", "variant", "algorithm", "ap_percent", "over_untrained_percent", "over_uniform_percent")
    assert [tuple(row[name] for name in names) for row in table] == [
        ("box_ap", "main", "IRing", 23.0, 8.75, 8.0),
        ("box_ap", "uniform", "IR", 15.0, 0.75, ""),
        ("box_ap", "untrained", "untrained", 14.25, "", ""),
    ]
    assert (table[0]["over_uniform_verdict"], table[0]["cell"]) == ("better", "coco box_ap")


def prepare(study, task, folder):
    """Settings of a task's stage at scale tiny, with scenes and an encoder in this folder."""
    tiny = study(scale="tiny")
    settings = task_settings(tiny, task)
    write_scenes(folder / "scenes", settings["kind"], tiny.section("drawn", SceneParams), 0)
    save_encoder(encoder(), folder / "main/0.safetensors")
    own = {"engine": "torchvision", "drop_empty": False, "scenes": folder / "scenes"}
    return settings | own | {"encoder": folder / "main/0.safetensors"}


@pytest.mark.parametrize("task", ["coco", *(pytest.param(task, marks=pytest.mark.slow) for task in list(NUMBERS)[1:])])
def test_a_task_runs_from_files_to_numbers(task, study, tmp_path, monkeypatch):
    settings, edits = prepare(study, task, tmp_path), itertools.count()
    with monkeypatch.context() as patch:
        patch.setattr(transfer, "hash_code", lambda module: {"edited": str(next(edits))})
        state, later = (transfer.detector_state(settings, ("main", 0)).folder for _ in range(2))
    assert state == later, "an edit while tasks wait for a worker changes no state"
    results = evaluate_detector(settings, ("main", 0))
    assert f"{NUMBERS[task]}_ap_percent" in results["ap"]
    assert all(0 <= value <= 100 for value in results["ap"].values())
    assert results["resampled"]["box_ap_percent"][0] == pytest.approx(results["ap"]["box_ap_percent"])
    assert not list(tmp_path.glob(".annulus/checkpoints/*/*"))
    if task == "coco":
        with monkeypatch.context() as patch:
            patch.setattr(fitting, "SAVE_EVERY", 1)
            patch.setattr(transfer, "evaluate", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                evaluate_detector(settings, ("main", 0))
        assert list(tmp_path.glob(".annulus/checkpoints/*/*/*.pt")), "what is trained stays until it is measured"
        assert evaluate_detector(settings, ("main", 0)) == results
        (tmp_path / "main/0.safetensors").write_text("no encoder")
        with pytest.raises(InputError, match=r"0.safetensors or its JSON is missing or not an encoder of annulus"):
            evaluate_detector(settings, ("main", 0))


def test_a_seed_without_encoders_is_refused_before_any_encoder_is_trained(study, tmp_path):
    transfer_params = tmp_path / "stages/transfer/params.yaml"
    transfer_params.write_text(transfer_params.read_text().replace("- 52\n- 53\n", "", 1))
    sentence = r"detection/params\.yaml: seeds: .*transfer/params\.yaml has no encoder of \[52, 53\]; .* \[50, 51, 54\]"
    with pytest.raises(InputError, match=sentence):
        script("stages/detection/settings.py").main(study())


def test_scenes_and_table_as_stages(study, tmp_path):
    """Each script reads the files of the one before it; a user's folder replaces drawn scenes."""
    files = script("stages/detection/settings.py").main(study(scale="tiny"))
    further = {f"further/{one['name']}" for one in read_yaml(PARAMS)["encoders"]}
    own = {f"{kind}/{task}" for kind in ("tasks", "scenes") for task in NUMBERS}
    assert files.keys() == {"table", "segments", "further_table"} | own | further
    scenes = script("stages/detection/scenes.py").main
    scenes(files["scenes/coco"], Namespace(scenes=tmp_path / "drawn"))
    assert [len(split.pictures) for split in read_splits(tmp_path / "drawn", "masks", False)] == [12, 8]
    scenes(files["scenes/coco"] | {"root": str(tmp_path / "drawn")}, Namespace(scenes=tmp_path / "real"))
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["scenes.json"]
    before, boxes = (tmp_path / "real/scenes.json").read_text(), tmp_path / "drawn/annotations/instances_train2017.json"
    boxes.write_text(boxes.read_text().replace('"iscrowd":0', '"iscrowd":1', 1))
    scenes(files["scenes/coco"] | {"root": str(tmp_path / "drawn")}, Namespace(scenes=tmp_path / "real"))
    assert (tmp_path / "real/scenes.json").read_text() != before, "so that no state of other annotations is taken"
    with pytest.raises(InputError, match="holds the numbers of no task"):
        script("stages/detection/table.py").main(files["table"], Namespace(tasks=tmp_path, table=tmp_path / "t.csv"))
