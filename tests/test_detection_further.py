"""Further encoders of the study of detection: the list in its params.yaml, their numbers and their table."""

import json
from argparse import Namespace

import numpy as np
import pytest
import yaml
from by_path import read_yaml, script
from checkout import Checkout, ran, rows_of
from declared import ROOT
from detector_cases import beside_transfer, encoder
from stated import stated_params

from annulus.encoders.saved import save_encoder
from annulus.errors import InputError
from annulus.files.results import write_metrics
from annulus.views.splits import ColourSplit
from annulus_lab.studies.detection.further import further_row, further_rows
from annulus_lab.studies.shared.study import MainStudy

STUDY = "cifar10_transfer"
BALL = {"name": "BALL", "study": STUDY, "base": "uniform"}


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Files of settings of a list of further encoders."""
    monkeypatch.chdir(tmp_path)
    own = beside_transfer(tmp_path)

    def made(encoders):
        own.write_text(yaml.safe_dump(read_yaml(ROOT / "stages/detection/params.yaml") | {"encoders": encoders}))
        return script("stages/detection/settings.py").main(MainStudy(stated_params(tmp_path / "root.yaml"), own))

    return made


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"name": "BALL+aneal"},
            r"detection/params\.yaml: encoders\.0\.name: .*cifar10_transfer/params\.yaml has no encoder 'BALL\+aneal'; "
            r"did you mean 'BALL\+anneal'\?; take one of main, uniform, .*, or add it to `encoders` there$",
        ),
        ({"base": "unifrom"}, r"encoders\.0\.base: .* has no encoder 'unifrom'; did you mean 'uniform'"),
        (
            {"study": "transfer"},
            r"encoders\.0\.name: .*stages/transfer/params\.yaml has no encoder 'BALL'; take one of",
        ),
        ({"study": "transfr"}, "encoders.0.study: 'transfr' trains no list of encoders; take transfer, cifar10_tra"),
        ({"study": "detection"}, "encoders.0.study: 'detection' trains no list of encoders; take transfer"),
        ({"study": ".."}, r"encoders\.0\.study: '\.\.' is not a name"),
    ],
)
def test_an_encoder_that_no_study_trains_is_refused_in_one_sentence(changes, sentence, settings):
    with pytest.raises(InputError, match=sentence) as error:
        settings([BALL | changes])
    assert "\n" not in str(error.value)


def test_an_encoder_that_stands_twice_is_refused(settings):
    with pytest.raises(InputError, match=r"encoders\.1\.name: 'BALL' stands twice; delete one of them"):
        settings([BALL, BALL | {"base": "untrained"}])


def test_folders_that_are_missing_are_named_with_the_command_that_makes_them(settings, tmp_path, caplog):
    (tmp_path / "stages" / STUDY / "data/encoders/uniform").mkdir(parents=True)
    settings([BALL, {"name": "BALL+anneal", "study": STUDY, "base": "BALL"}])
    assert caplog.messages[-1] == (
        f"WARNING: stages/{STUDY}/data/encoders lacks BALL, BALL+anneal; "
        f'`make study STUDY={STUDY} ARGS="encoders further_encoders"` makes them'
    )


def test_an_encoder_has_the_seeds_and_the_data_set_of_its_study_and_a_variant_the_papers_name(settings):
    uniform, ball = ({"name": name, "study": STUDY, "base": "untrained"} for name in ("uniform", "BALL"))
    files = settings([uniform, ball])
    own = read_yaml(ROOT / f"stages/{STUDY}/params.yaml")
    assert files["further/coco/BALL"] == files["tasks/coco"] | {"seeds": own["seeds"]}
    named = [(one["encoder"], one["algorithm"], one["dataset"]) for one in files["further_table"]["encoders"]]
    assert named == [("uniform", "IR", "folder"), ("BALL", "BALL", "folder")]


def run(value: float) -> dict:
    """A run whose number on each of 30 draws differs from its own by what all runs share, +-1."""
    draws = {"box_ap_percent": [value, *(value + np.resize([1.0, -1.0], 30))]}
    return {"ap": {"box_ap_percent": value, "box_aps_percent": 2 * value}, "resampled": draws, "loss": 1.0}


def test_the_table_has_a_row_for_each_number_of_what_has_run_with_gains_in_pairs(tmp_path):
    runs = {"encoder": {70: run(20.0), 71: run(26.0)}, "base": {70: run(12.0), 71: run(17.0)}}
    own = {"configuration": "c", "engine": "torchvision", "scale": "tiny", "seeds": 2}
    write_metrics(tmp_path / "voc.BALL.json", own | further_row(runs))
    ball, cave = (
        {"encoder": name, "algorithm": name, "study": STUDY, "base": "uniform", "dataset": "folder"}
        for name in ("BALL", "CAVE")
    )
    first, second = further_rows(tmp_path, ["coco", "voc"], [cave, ball])
    assert [first[name] for name in ("task", "number", "encoder", "base")] == ["voc", "box_ap", "BALL", "uniform"]
    assert (first["ap_percent"], first["over_base_percent"]) == (23.0, 8.5)
    half = 12.706 * np.std([8.0, 9.0], ddof=1) / np.sqrt(2)  # Student's t of two seeds: what the draws share cancels
    assert first["over_base_interval_percent"] == pytest.approx(half, abs=0.01)
    assert (second["number"], second["over_base_percent"], second["dataset"]) == ("box_aps", 17.0, "folder")
    main, paths = script("stages/detection/further_table.py").main, Namespace(further=tmp_path / "none", table=tmp_path)
    with pytest.raises(InputError, match="holds the numbers of no further encoder; run `dvc repro`"):
        main({"tasks": ["coco"], "encoders": [ball]}, paths)


@pytest.mark.slow
def test_a_list_of_encoders_goes_from_settings_to_the_table(tmp_path):
    """BALL and CMC, whose two networks are one backbone, at scale tiny; the three encoders of the study do not run."""
    checkout, seeds = Checkout(tmp_path / "annulus", "detection"), [0, 1]
    cmc = {"name": "CMC", "study": STUDY, "base": "uniform"}
    tiny = {"scale": "tiny", "seeds": seeds, "encoders": [BALL, cmc]}
    checkout.cut("transfer", lambda content: content.update({"seeds": seeds}))
    checkout.cut(STUDY, lambda content: content.update({"seeds": seeds}))
    checkout.cut("detection", lambda content: content.update(tiny | {"tasks": {"coco": content["tasks"]["coco"]}}))
    folder = checkout.project(STUDY) / "data/encoders"
    for place, name in enumerate(("uniform", "BALL", "CMC")):
        split = {"split": ColourSplit("lab")} if name == "CMC" else {}
        for seed in seeds:
            save_encoder(encoder(10 * place + seed, **split), folder / name / f"{seed}.safetensors")

    stages = {"settings", "scenes@coco", "further@coco-encoder0", "further@coco-encoder1", "further_table"}
    assert set(ran(checkout.dvc("repro", "further_table", study="detection"))) == stages
    rows = rows_of(checkout.project("detection") / "metrics/further.csv")
    named = {(row["encoder"], row["seeds"], row["scale"]) for row in rows}
    assert named == {(name, "2", "tiny") for name in ("BALL", "CMC")}
    assert {"box_ap", "mask_ap"} < {row["number"] for row in rows}
    assert all(0 <= float(row["ap_percent"]) <= 100 for row in rows)
    numbers = json.loads((checkout.project("detection") / "metrics/further/coco.CMC.json").read_text())
    assert (numbers["test_pictures"], numbers["configuration"]) == (8, "mask-rcnn-fpn")
    changed = checkout.changed_by("detection", lambda content: content["encoders"].pop())
    assert changed & (stages | {"further@coco-encoder0"}) == {"further_table"}, "BALL does not run again"
