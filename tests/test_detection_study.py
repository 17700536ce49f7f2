"""The study of detection: configurations as the papers have them, known runs, and all tasks at scale tiny."""

import numpy as np
import pytest
import yaml
from by_path import script
from declared import ROOT, missing_and_spare
from detector_cases import encoder

from annulus.config.file import read_tree
from annulus.config.study import MainStudy
from annulus.detection.layouts import write_scenes
from annulus.detection.scenes_params import SceneParams
from annulus.detection.splits import read_splits
from annulus.detection.tasks import check_engine, detector_of, task_settings
from annulus.detection.transfer import measured
from annulus.encoders.encoder import save_encoder
from annulus.errors import InputError
from annulus.files.results import write_table
from annulus.intervals import over_seeds
from annulus.report.metrics import Metrics
from annulus.report.papers import compared, load_measured, load_tables
from annulus.trials.detected import gain, numbers, precision
from annulus.trials.detection_tables import rows

PARAMS = ROOT / "stages/detection/params.yaml"
TASKS = ["coco", "coco-c4", "keypoints", "voc", "lvis"]


@pytest.fixture
def study(tmp_path):
    """The study's params.yaml with some values changed."""

    def changed(**changes):
        content = yaml.safe_load(PARAMS.read_text())
        for key, value in changes.items():
            place, (*sections, last) = content, key.split("__")
            for section in sections:
                place = place[section]
            place[last] = value
        path = tmp_path / "params.yaml"
        path.write_text(yaml.safe_dump(content))
        return MainStudy(ROOT / "params.yaml", path)

    return changed


def test_each_stage_declares_what_it_reaches():
    for name, stage in read_tree(ROOT / "stages/detection/dvc.yaml")["stages"].items():
        assert missing_and_spare(stage) == ([], []), name


@pytest.mark.parametrize(
    ("name", "outputs", "neck", "frozen", "iterations", "drops", "rate", "proposals"),
    [  # Detectron2's configuration files of these names
        ("mask-rcnn-fpn", "masks", "fpn", True, 90000, [60000, 80000], 0.02, [2000, 1000]),
        ("mask-rcnn-c4", "masks", "c4", True, 90000, [60000, 80000], 0.02, [12000, 2000]),
        ("keypoint-rcnn-fpn", "keypoints", "fpn", True, 90000, [60000, 80000], 0.02, [2000, 1500]),
        ("faster-rcnn-c4", "boxes", "c4", True, 18000, [12000, 16000], 0.02, [12000, 2000]),
        ("fine-tuned-r50-fpn-2x", "masks", "fpn", False, 180000, [120000, 160000], 0.02, [2000, 1000]),
        ("fine-tuned-voc-c4", "boxes", "c4", False, 24000, [18000, 22000], 0.02, [12000, 2000]),
    ],
)
def test_a_configuration_is_the_papers(name, outputs, neck, frozen, iterations, drops, rate, proposals, study):
    detector, training = detector_of(study(scale="paper"), name)
    training = training.scaled()
    assert (detector.outputs, detector.neck, detector.frozen) == (outputs, neck, frozen)
    assert (training.batch_size, training.iterations, training.drops) == (16, iterations, drops)
    assert training.learning_rate == pytest.approx(rate)
    assert detector.proposals_train == proposals


def test_lvis_repeats_rare_categories_and_keeps_300_detections(study):
    detector, training = detector_of(study(scale="paper"), "lvis-mask-rcnn-fpn")
    assert (detector.score_threshold, detector.detections, training.repeat_threshold) == (1e-4, 300, 0.001)


def test_eqcos_schedule_is_12_epochs_at_a_batch_of_16(study):
    _, training = detector_of(study(scale="paper"), "fine-tuned-eqco")
    training = training.scaled()
    assert training.learning_rate == pytest.approx(0.02)
    assert training.iterations * 16 / 118287 == pytest.approx(12, abs=1e-3)
    assert [drop / training.iterations * 12 for drop in training.drops] == pytest.approx([7, 11], abs=1e-3)


@pytest.mark.parametrize("scale", ["tiny", "demo", "paper"])
@pytest.mark.parametrize("task", TASKS)
def test_every_task_has_settings_at_every_scale(task, scale, study):
    assert task_settings(study(scale=scale), task)["task"] == task


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"tasks__coco__configuration": "mask-rcn-fpn"}, r"has no 'mask-rcn-fpn'; did you mean 'mask-rcnn-fpn'"),
        ({"tasks__coco__kind": "mask"}, r"tasks.coco: kind: 'mask' refused"),
        ({"tasks__coco__configuration": "faster-rcnn-c4"}, "finds boxes, which scenes of kind masks do not have"),
        ({"configurations__mask-rcnn-fpn": {"detektor": {}}}, "'detektor' is neither detector nor training"),
        ({"detector__necc": "fpn"}, "necc: unknown key; did you mean 'neck'"),
        ({"scales__demo__training": {"iterations": 0}}, "iterations: 0 refused"),
    ],
)  # fmt: skip
def test_a_wrong_setting_is_refused_by_name(changes, sentence, study):
    with pytest.raises(InputError, match=sentence):
        task_settings(study(**changes), "coco")


def test_an_unknown_engine_is_refused_with_the_nearest(monkeypatch):
    with pytest.raises(
        InputError, match="engine: 'torchvison' is none of torchvision, detectron2; did you mean 'torchvision'"
    ):
        check_engine("torchvison")
    monkeypatch.setattr("annulus.detection.tasks.find_spec", lambda _: None)
    with pytest.raises(
        InputError, match=r"detectron2 is not installed here; build it as https://detectron2.readthedocs.io"
    ):
        check_engine("detectron2")
    check_engine("torchvision")


TRAINED = {"method": "ir", "split": "none", "sampler": "ring", "dataset": "shapes"}


def runs(values, resampled=True):
    """Runs of some seeds whose number on each of 30 draws differs from its own by what all runs share, +-1."""
    shift = np.resize([1.0, -1.0], 30)
    return {
        seed: {
            "ap": {"box_ap_percent": value},
            "resampled": {"box_ap_percent": [value, *(value + shift)]} if resampled else {},
            "loss": 1.0,
        }
        for seed, value in enumerate(values)
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
    found = {"main": runs([20.0, 26.0]), "uniform": runs([12.0, 18.0]), "untrained": runs([11.0, 17.5])}
    own = {"configuration": "c", "engine": "torchvision", "scale": "tiny", "seeds": 2}
    table = list(rows({"coco": own | numbers(found)}, TRAINED))
    assert [(row["number"], row["variant"], row["ap_percent"]) for row in table] == [
        ("box_ap", "main", 23.0),
        ("box_ap", "uniform", 15.0),
        ("box_ap", "untrained", 14.25),
    ]
    assert [row["over_untrained_percent"] for row in table] == [8.75, 0.75, ""]
    assert [row["over_uniform_percent"] for row in table] == [8.0, "", ""]
    assert table[0]["over_uniform_verdict"] == "better"
    assert [row["algorithm"] for row in table] == ["IRing", "IR", "untrained"]
    assert table[0]["cell"] == "coco box_ap"


@pytest.mark.parametrize("task", TASKS)
def test_a_task_runs_from_files_to_numbers(task, study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = study(scale="tiny")
    settings = task_settings(tiny, task)
    write_scenes(tmp_path / "scenes", settings["kind"], tiny.section("drawn", SceneParams), 0)
    save_encoder(encoder(), tmp_path / "main/0.safetensors")
    own = {
        "engine": "torchvision",
        "drop_empty": False,
        "scenes": tmp_path / "scenes",
        "encoders": {"main": tmp_path / "main"},
    }
    found = measured(settings | own, ("main", 0))
    kinds = {"coco": "mask", "coco-c4": "mask", "keypoints": "keypoint", "voc": "voc07", "lvis": "mask"}
    assert f"{kinds[task]}_ap_percent" in found["ap"]
    assert all(0 <= value <= 100 for value in found["ap"].values())
    assert found["resampled"]["box_ap_percent"][0] == pytest.approx(found["ap"]["box_ap_percent"])
    again = measured(settings | own, ("main", 0))
    assert (again["ap"], again["loss"]) == (found["ap"], found["loss"])
    assert not list(tmp_path.glob(".annulus/checkpoints/*/*"))


def test_a_file_that_is_no_encoder_is_refused(study, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny = study(scale="tiny")
    write_scenes(tmp_path / "scenes", "masks", tiny.section("drawn", SceneParams), 0)
    (tmp_path / "0.safetensors").write_text("no encoder")
    settings = task_settings(tiny, "coco") | {
        "engine": "torchvision",
        "drop_empty": False,
        "scenes": tmp_path / "scenes",
    }
    with pytest.raises(InputError, match=r"0.safetensors or its JSON is missing or not an encoder of annulus"):
        measured(settings | {"encoders": {"main": tmp_path}}, ("main", 0))


def test_scenes_and_table_as_stages(study, tmp_path, monkeypatch):
    """What the scripts write is what the next one reads; a folder of the user's stands in for drawn scenes."""
    monkeypatch.chdir(tmp_path)
    files = script("stages/detection/settings.py").main(study(scale="tiny"))
    assert sorted(files) == sorted(["table", *(f"{kind}/{task}" for kind in ("tasks", "scenes") for task in TASKS)])
    scenes = script("stages/detection/scenes.py").main
    from argparse import Namespace

    scenes(files["scenes/coco"], Namespace(scenes=tmp_path / "drawn"))
    train, test = read_splits(tmp_path / "drawn", "masks", False)
    assert (len(train.pictures), len(test.pictures)) == (12, 8)
    scenes(files["scenes/coco"] | {"root": str(tmp_path / "drawn")}, Namespace(scenes=tmp_path / "real"))
    assert [path.name for path in (tmp_path / "real").iterdir()] == ["scenes.json"]
    with pytest.raises(InputError, match="holds the numbers of no task"):
        script("stages/detection/table.py").main(files["table"], Namespace(tasks=tmp_path, table=tmp_path / "t.csv"))


@pytest.mark.parametrize(
    ("table", "columns"),
    [("ring.table4", 12), ("mutualinfo.table2b", 6), ("mutualinfo.table2d", 3), ("mutualinfo.table4", 6)],
)
def test_the_papers_tables_take_their_cells_from_the_table(table, columns, tmp_path):
    """Every column of IR and, where it is printed, of IRing has our number; no other row has one."""
    value = {f"{kind}_ap{at}_percent": 10.0 for kind in ("box", "mask", "keypoint") for at in ("", "50", "75")}
    own = {"configuration": "c", "engine": "torchvision", "scale": "demo", "seeds": 2}
    found = {
        variant: {seed: {"ap": value, "resampled": {}, "loss": 1.0} for seed in (0, 1)}
        for variant in ("main", "uniform", "untrained")
    }
    write_table(
        tmp_path / "metrics/detection/table.csv", list(rows({task: own | numbers(found) for task in TASKS}, TRAINED))
    )
    (theirs,) = [one for one in load_tables() if one.id == table]
    found_here = compared(theirs, load_measured()[table], Metrics(tmp_path))
    assert found_here.status == "run"
    here = [row for row in found_here.rows if row.here is not None]
    methods = {row.labels["method"] for row in here}
    assert methods == ({"IR", "IRing"} if table.startswith("ring") else {"IR"})
    assert len(here) == columns * len(methods)
    assert {row.here for row in here} == {10.0}
