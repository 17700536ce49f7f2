"""Further encoders of the study of detection: the list in its params.yaml, their numbers and their table."""

from argparse import Namespace
from pathlib import Path

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
from annulus.files.results import write_table
from annulus.views.splits import ColourSplit
from annulus_lab.report.papers.comparison import compare_table, load_measured, load_tables
from annulus_lab.report.papers.metrics import Metrics
from annulus_lab.studies.detection.further import precision_rows, write_runs
from annulus_lab.studies.shared.study import MainStudy

PARAMS = ROOT / "stages/detection/params.yaml"
STUDY = "cifar10_transfer"
UNIFORM = {"name": "uniform", "study": STUDY, "bases": []}
BALL = {"name": "BALL", "study": STUDY, "bases": ["uniform"]}


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """Function from a list of further encoders to the files of settings."""
    monkeypatch.chdir(tmp_path)
    own = beside_transfer(tmp_path)

    def make(encoders):
        own.write_text(yaml.safe_dump(read_yaml(PARAMS) | {"encoders": encoders}))
        return script("stages/detection/settings.py").main(MainStudy(stated_params(tmp_path / "root.yaml"), own))

    return make


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"name": "BALL+aneal"},
            r"detection/params\.yaml: encoders\.1\.name: .*cifar10_transfer/params\.yaml has no encoder 'BALL\+aneal'; "
            r"did you mean 'BALL\+anneal'\?; take one of main, uniform, .*, or add it to `encoders` there$",
        ),
        (
            {"bases": ["uniform", "unifrom"]},
            r"encoders\.1\.bases: 'unifrom' is none of this list's other encoders of cifar10_transfer; did you mean "
            "'uniform'.; take some of uniform, or add it$",
        ),
        (
            {"bases": ["BALL"]},
            r"encoders\.1\.bases: 'BALL' is none of this list's other encoders of cifar10_transfer; take",
        ),
        (
            {"study": "transfer", "name": "PIRL"},
            r"encoders\.1\.name: .*stages/transfer/params\.yaml has no encoder 'PIRL'; take one of",
        ),
        ({"study": "transfr"}, "encoders.1.study: 'transfr' trains no list of encoders; take transfer, cifar10_tra"),
        ({"study": "detection"}, "encoders.1.study: 'detection' trains no list of encoders; take transfer"),
        ({"study": ".."}, r"encoders\.1\.study: '\.\.' is not a name"),
    ],
)
def test_an_encoder_that_no_study_trains_is_refused_in_one_sentence(changes, sentence, settings):
    with pytest.raises(InputError, match=sentence) as error:
        settings([UNIFORM, BALL | changes])
    assert "\n" not in str(error.value)


def test_an_encoder_that_stands_twice_is_refused(settings):
    with pytest.raises(InputError, match=r"encoders\.1\.name: 'BALL' stands twice; delete one of them"):
        settings([BALL | {"bases": []}, BALL])


def test_folders_that_are_missing_are_named_with_the_command_that_makes_them(settings, tmp_path, caplog):
    (tmp_path / "stages" / STUDY / "data/encoders/uniform").mkdir(parents=True)
    settings([UNIFORM, BALL, {"name": "BALL+anneal", "study": STUDY, "bases": ["BALL"]}])
    assert caplog.messages[-1] == (
        f"WARNING: stages/{STUDY}/data/encoders lacks BALL, BALL+anneal; "
        f'`make study STUDY={STUDY} ARGS="encoders further_encoders"` makes them'
    )


def test_an_encoder_has_the_seeds_and_the_data_set_of_its_study_and_a_variant_the_papers_name(settings):
    files = settings([UNIFORM, BALL])
    seeds = {"seeds": read_yaml(ROOT / f"stages/{STUDY}/params.yaml")["seeds"]}
    tasks = files["further/BALL"]["tasks"]
    assert tasks == {name: files[f"tasks/{name}"] | seeds for name in read_yaml(PARAMS)["tasks"]}
    named = [(one["encoder"], one["algorithm"], one["dataset"]) for one in files["further_table"]["encoders"]]
    assert named == [("uniform", "IR", "cifar10_images"), ("BALL", "BALL", "cifar10_images")]


def run(value: float) -> dict:
    """A run whose number on each of 30 draws differs from its own by +-1, the same in all runs."""
    draws = {"box_ap_percent": [value, *(value + np.resize([1.0, -1.0], 30))]}
    return {"ap": {"box_ap_percent": value, "box_aps_percent": 2 * value}, "resampled": draws, "loss": 1.0}


def encoder_entries(**bases: list[str]) -> list[dict]:
    """Entries of encoders as in the settings of the table."""
    shared = {"study": STUDY, "dataset": "folder"}
    return [shared | {"encoder": name, "algorithm": name, "bases": own} for name, own in bases.items()]


TASKS = {"voc": {"configuration": "c", "engine": "torchvision", "scale": "tiny"}}


def tables(folder: Path, entries: list[dict]) -> tuple[list[dict], list[dict]]:
    """Rows of both tables that the stage writes for a folder of runs."""
    paths = Namespace(runs=folder, table=folder / "further.csv", gains=folder / "further_gains.csv")
    script("stages/detection/further_table.py").main({"tasks": TASKS, "encoders": entries}, paths)
    return rows_of(paths.table), rows_of(paths.gains)


def test_the_tables_have_the_precision_of_what_has_run_and_its_gains_in_pairs(tmp_path):
    for name, values in {"BALL": (20.0, 26.0), "uniform": (12.0, 17.0), "LA": (21.0, 26.0)}.items():
        write_runs(tmp_path / f"{name}.json", {"voc": dict(zip((70, 71), map(run, values), strict=True))})
    table, gains = tables(tmp_path, encoder_entries(CAVE=["uniform"], uniform=[], BALL=["uniform", "LA"], LA=[]))
    assert [(row["encoder"], row["cell"]) for row in table] == [
        (name, f"voc {number}") for name in ("uniform", "BALL", "LA") for number in ("box_ap", "box_aps")
    ]
    assert (table[2]["ap_percent"], table[2]["ap_seed71_percent"], table[2]["seeds"]) == ("23.0", "26.0", "2")
    names = [(row["encoder"], row["base"], row["number"], row["gain_percent"]) for row in gains]
    assert names == [
        ("BALL", "uniform", "box_ap", "8.5"),
        ("BALL", "uniform", "box_aps", "17.0"),
        ("BALL", "LA", "box_ap", "-0.5"),
        ("BALL", "LA", "box_aps", "-1.0"),
    ]
    half = (
        12.706 * np.std([8.0, 9.0], ddof=1) / np.sqrt(2)
    )  # Student's t of two seeds: the shared part of the draws cancels
    assert float(gains[0]["gain_interval_percent"]) == pytest.approx(half, abs=0.01)
    assert gains[0]["dataset"] == "folder"


def test_a_base_that_has_not_run_and_runs_that_are_none_are_refused(tmp_path):
    entries = encoder_entries(uniform=[], BALL=["uniform"])
    with pytest.raises(InputError, match="holds the runs of no further encoder; run `dvc repro`"):
        tables(tmp_path, entries)
    write_runs(tmp_path / "BALL.json", {"voc": {70: run(20.0)}})
    with pytest.raises(InputError, match=r"has BALL and not uniform, its base; run `dvc repro further@encoder0`$"):
        tables(tmp_path, entries)
    (tmp_path / "uniform.json").write_text("[]")
    with pytest.raises(InputError, match=r"uniform.json holds no runs of an encoder"):
        tables(tmp_path, entries)


def test_the_papers_tables_take_their_cells_from_the_table(tmp_path):
    """Every column of IR, and of IRing if printed, has our number; the other rows have none."""
    value = {f"{kind}_ap{at}_percent": 10.0 for kind in ("box", "mask", "keypoint") for at in ("", "50", "75")}
    runs = {seed: {"ap": value, "resampled": {}} for seed in (0, 1)}
    tasks = dict.fromkeys(read_yaml(PARAMS)["tasks"], TASKS["voc"])
    rows = [
        row
        for one in encoder_entries(IR=[], IRing=[])
        for row in precision_rows(tasks, one, dict.fromkeys(tasks, runs))
    ]
    write_table(tmp_path / "stages/detection/metrics/further.csv", rows)
    columns = {"ring.table4": 12, "mutualinfo.table2b": 6, "mutualinfo.table2d": 3, "mutualinfo.table4": 6}
    for theirs in (one for one in load_tables() if one.id in columns):
        comparison = compare_table(theirs, load_measured()[theirs.id], Metrics(tmp_path))
        assert comparison.status == "run"
        here = [row for row in comparison.rows if row.here is not None]
        methods = {row.labels["method"] for row in here}
        assert methods == ({"IR", "IRing"} if theirs.id.startswith("ring") else {"IR"})
        assert (len(here), {row.here for row in here}) == (columns[theirs.id] * len(methods), {10.0})


@pytest.mark.slow
def test_a_list_of_encoders_goes_from_settings_to_the_table(tmp_path):
    """Uniform, BALL and CMC (two networks in one backbone) at scale tiny; the three of the study do not run."""
    checkout, seeds = Checkout(tmp_path / "annulus", "detection"), [0, 1]
    cmc = {"name": "CMC", "study": STUDY, "bases": ["uniform"]}
    tiny = {"scale": "tiny", "seeds": seeds, "encoders": [UNIFORM, BALL, cmc]}
    checkout.cut("transfer", lambda content: content.update({"seeds": seeds}))
    checkout.cut(STUDY, lambda content: content.update({"seeds": seeds}))
    checkout.cut("detection", lambda content: content.update(tiny | {"tasks": {"coco": content["tasks"]["coco"]}}))
    folder = checkout.project(STUDY) / "data/encoders"
    for place, name in enumerate(("uniform", "BALL", "CMC")):
        split = {"split": ColourSplit("lab")} if name == "CMC" else {}
        for seed in seeds:
            save_encoder(encoder(10 * place + seed, **split), folder / name / f"{seed}.safetensors")

    further = {f"further@encoder{place}" for place in range(3)}
    assert set(ran(checkout.dvc("repro", "further_table", study="detection"))) == further | {
        "settings",
        "scenes@coco",
        "further_table",
    }
    table, gains = (
        rows_of(checkout.project("detection") / f"metrics/{name}.csv") for name in ("further", "further_gains")
    )
    assert {(row["encoder"], row["seeds"], row["scale"]) for row in table} == {
        (name, "2", "tiny") for name in ("uniform", "BALL", "CMC")
    }
    assert {(row["encoder"], row["base"]) for row in gains} == {("BALL", "uniform"), ("CMC", "uniform")}
    assert {row["configuration"] for row in table} == {"mask-rcnn-fpn"}
    assert {"box_ap", "mask_ap"} < {row["number"] for row in table}
    assert all(0 <= float(row["ap_percent"]) <= 100 for row in table)
    changed = checkout.changed_by("detection", lambda content: content["encoders"].pop())
    assert changed & (further | {"further_table"}) == {"further_table"}, "no other encoder runs again"
