"""The study `distillation` as a user runs it, at `scale: tiny`, cut to four losses; its twin has the same losses."""

import pytest
from by_path import ROOT, script
from checkout import Checkout, ran, rows_of
from PIL import Image

from annulus_lab.studies.distillation.classifiers.saved import load_classifier
from annulus_lab.studies.distillation.distillation_study import loss_settings
from annulus_lab.studies.shared.study import OwnStudy

LOSSES = ["alone", "crd", "mlcpc-005", "mlcpc-005-cave"]


def four_losses(content: dict) -> None:
    content |= {"scale": "tiny", "seeds": [0, 1], "losses": LOSSES, "teachers": ["resnet8"]}
    content |= {"shown": ["alone", "crd"]}
    content["pairs"] = [{"name": "small", "teacher": "resnet8", "student": "resnet8", "learning_rate": 0.02}]


@pytest.mark.slow
def test_the_study_as_a_user_runs_it(tmp_path):
    checkout = Checkout(tmp_path / "annulus", "distillation")
    checkout.cut("distillation", four_losses)
    students = [f"student@pair0-{loss}" for loss in LOSSES]
    assert set(ran(checkout.dvc("repro", study="distillation"))) == {
        "settings",
        "images",
        "teacher@resnet8",
        *students,
        "table",
    }
    folder = checkout.project("distillation") / "metrics"
    rows = {row["loss"]: row for row in rows_of(folder / "table.csv")}
    assert list(rows) == ["teacher", *LOSSES]
    assert rows["mlcpc-005"]["method"] == "alpha-ML-CPC"
    assert (rows["alone"]["gain_verdict"], rows["crd"]["crd_gain_verdict"]) == ("base", "base")
    for loss in LOSSES:
        difference = float(rows[loss]["here_percent"]) - float(rows["alone"]["here_percent"])
        assert float(rows[loss]["gain_percent"]) == pytest.approx(difference, abs=0.011)
    pairs = [(row["loss"], row["base"]) for row in rows_of(folder / "pairs.csv")]
    assert pairs == [("mlcpc-005", "crd"), ("mlcpc-005-cave", "mlcpc-005")]
    with Image.open(folder / "correlations.png") as picture:
        assert picture.width > picture.height, "two panels, side by side"
    student = load_classifier(checkout.project("distillation") / "data/students/small.crd/1.safetensors")
    assert student.config.name == "resnet8"
    assert not list(checkout.folder.glob(".annulus/checkpoints/*/*"))

    warmer = {"contrast": {"temperature": 0.1}}
    changed = checkout.changed_by("distillation", lambda content: content["rows"]["crd"].update(warmer))
    assert changed == {"student@pair0-crd", "table"}, "one loss trains again"


@pytest.mark.parametrize("scale", ["tiny", "demo", "gpu", "paper"])
def test_the_study_on_cifar10_has_the_same_losses_on_images_of_its_own(scale):
    names = ("distillation", "cifar10_distillation")
    study, twin = (OwnStudy(ROOT / "stages" / name / "params.yaml", scale) for name in names)
    files = script("stages/distillation/settings.py").main(twin)
    assert files["images"]["dataset"] == ("shapes" if scale == "tiny" else "folder")
    (pair,) = twin.content["pairs"]
    for loss in twin.content["losses"]:
        here, there = files[f"students/{pair['name']}.{loss}"], loss_settings(study, loss)
        assert (here["network"], here["seeds"]) == (pair["student"], twin.params.seeds)
        assert here["weights"] == there["weights"]
        assert here["contrast"] == there["contrast"] | {"negatives": here["contrast"]["negatives"]}
