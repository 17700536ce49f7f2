"""Detectors of the papers' tables: each configuration with its encoder's network, built and trained by Detectron2."""

from dataclasses import replace
from functools import cache

import pytest
import torch
from by_path import ROOT
from detector_cases import rectangles

from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.errors import InputError
from annulus_lab.report.presets.tables import TablePresets, load_study
from annulus_lab.studies.detection.tasks import detector_settings, task_settings

# Sizes of pictures; the other settings are the papers'.
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SMALL = {"shorter": [64], "shorter_test": 64, "longer": 128}


@cache
def detectors() -> dict[tuple[str, str], str]:
    """Kind of each configuration of the tables with the network of its encoder."""
    tables, study = TablePresets(ROOT), load_study(ROOT, "detection")
    kinds = {}
    for row in tables.rows.values():
        if row.study == "detection" and not row.absent:
            architecture = tables.params(row).get("backbones.${backbone}").architecture
            for task in (stage.partition("@")[2] for stage in row.stages):
                own = study.content["tasks"][task]
                name = row.study_changes.get(f"tasks.{task}.configuration", own["configuration"])
                kinds[name, architecture] = own["kind"]
    return kinds


def test_the_tables_take_every_configuration_of_the_study():
    assert {name for name, _ in detectors()} == load_study(ROOT, "detection").content["configurations"].keys()
    assert {network for _, network in detectors()} == {
        "resnet18", "resnet50", "resnet101", "resnext101_32x8d", "resnext152_32x8d"
    }  # fmt: skip


def test_a_cascade_is_refused_by_torchvisions_engine():
    study = load_study(ROOT, "detection")
    study.content["tasks"]["coco"] = {"kind": "masks", "configuration": "cascade-fpn"}
    with pytest.raises(InputError, match=r"cascade-fpn has a cascade of box heads, .* take engine: detectron2"):
        task_settings(study, "coco")


@pytest.mark.slow
def test_detectron2_builds_each_of_them_which_takes_one_step(tmp_path):
    pytest.importorskip(
        "detectron2", reason="Detectron2 is not installed; it is built from source, as its own pages say"
    )
    from annulus_lab.studies.detection import detectron2_engine as engine

    scenes, study = {}, load_study(ROOT, "detection")
    for kind in ("masks", "keypoints"):
        (tmp_path / kind).mkdir()
        scenes[kind] = rectangles(tmp_path / kind, kind)
    for name, architecture in detectors():
        detector, training = detector_settings(study, name)
        detector = replace(detector, **SMALL)
        training = replace(training, iterations=1, drops=[], batch_size=1, reference_batch=1, warmup=0)
        annotated = scenes["keypoints" if detector.outputs == "keypoints" else "masks"]
        network = build_encoder(EncoderConfig(architecture, "imagenet", "linear", 128, 64, None, MEAN, STD), 0)
        config = engine.build_config(network, annotated, detector)
        model = engine.build(network, config, detector, 0).train()
        before = {key: value.clone() for key, value in model.state_dict().items()}
        loss = engine.train_model(model, config, annotated, detector, training, 0, None)
        moved = {key for key, value in model.state_dict().items() if not torch.equal(value, before[key])}
        assert 0 < loss < 100, (name, architecture, loss)
        assert any(".res4." in key for key in moved) != detector.frozen, (name, architecture)
        assert any("roi_heads" in key for key in moved), (name, architecture)
        assert ("roi_heads.box_predictor.2.bbox_pred.weight" in before) == detector.cascade
