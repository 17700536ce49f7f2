"""Algorithms in words, from the settings of their rows: a column in tables, tooltips in figures."""

import csv
import shutil
from xml.etree import ElementTree

import pytest
from by_path import ROOT

from annulus_lab.report.figures.drawing import with_tooltips
from annulus_lab.report.page.seed_tables import gains_table
from annulus_lab.report.papers.algorithms import algorithms_in_words, in_words

BASE = {"method": "ir", "split": "none", "bound": "infonce", "sampler": "uniform", "anneal": "none"}
STUDIES = ["algorithms", "cifar10_algorithms", "cifar10"]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "keys from a memory bank; uniform negatives; InfoNCE"),
        (
            {"split": "lab", "sampler": "ring", "anneal": "linear"},
            "keys from a memory bank; two networks, on L and ab; negatives from close rows without the closest, "
            "narrowing during training; InfoNCE",
        ),
        (
            {"neighbours": "s", "neighbour_sets.s": {"share": 0.01, "start": 0.0}, "sampler": "ball"},
            "keys from a memory bank; negatives from the closest rows; closest rows as further positives, "
            "from the first step; InfoNCE",
        ),
        (
            {"neighbours": "k", "sampler": "cave", "samplers.cave.keep": "inside"},
            "keys from a memory bank; negatives from the query's cluster; rows of the query's cluster as further "
            "positives, later in training; InfoNCE",
        ),
        (
            {"method": "moco", "methods.moco.head": "mlp", "bound": "mlcpc", "bounds.mlcpc.alpha_start": 10.0}
            | {"bounds.mlcpc.alpha_end": 0.1},
            "keys from a queue; MLP head; uniform negatives; ML-CPC, alpha from 10.0 to 0.1",
        ),
        (
            {"method": "simo", "bounds.infonce.eqco_alpha": 256.0},
            "keys from the batch, momentum encoder; uniform negatives; InfoNCE, margin for 256 negatives",
        ),
        (
            {"scales.${scale}.pretrain.learning_rate": 1e-9, "split": "hsv"},
            "not trained; two networks, on the channels of hsv",
        ),
        ({"method": "mine", "sampler": "own", "bound": "new"}, "mine; own; new"),
    ],
)
def test_a_row_s_settings_are_a_line_of_words(changes, words):
    assert in_words(BASE | changes) == words


@pytest.mark.parametrize("study", STUDIES)
def test_every_method_that_was_measured_has_words_and_equal_names_of_two_tables_their_own(study):
    words = algorithms_in_words(ROOT, study)
    with (ROOT / f"stages/{study}/metrics/table.csv").open(encoding="utf-8", newline="") as file:
        measured = {(row["table"], row["method"]) for row in csv.DictReader(file)}
    assert measured <= words.keys()
    assert words["mutualinfo.table1", "IR"] == "keys from a memory bank; uniform negatives; binary NCE"
    assert words["ring.table1a", "IR"] == "keys from a memory bank; uniform negatives; InfoNCE"


def test_numbers_of_other_parameters_and_a_study_without_tables_have_no_words(tmp_path):
    folder = tmp_path / "stages/algorithms"
    folder.mkdir(parents=True)
    for name in ("params.yaml", "dvc.lock"):
        shutil.copy(ROOT / "stages/algorithms" / name, folder)
    assert algorithms_in_words(tmp_path, "algorithms")
    other = tmp_path / "edited/stages/algorithms"
    shutil.copytree(folder, other)
    (other / "params.yaml").write_text((folder / "params.yaml").read_text() + "# edited\n")
    assert algorithms_in_words(tmp_path / "edited", "algorithms") == {}
    assert algorithms_in_words(ROOT, "law") == {}
    assert algorithms_in_words(tmp_path, "absent") == {}


def test_a_table_has_a_column_of_words_where_a_row_has_some():
    row = {"table": "t", "method": "RING", "verdict": "better", "here_gain_percent": 1.0}
    row |= {"here_gain_interval_percent": 0.5, "paper_gain_percent": "", "here_percent": 50.0}
    titles = ["method", "gain here ± 95 %", "verdict", "survives in all rows"]
    assert [column.title for column in gains_table("", [row], {}).columns] == titles
    table = gains_table(
        "",
        [row, row | {"method": "own", "here_percent": 51.0}],
        {("t", "RING"): "close rows", ("u", "own"): "of another table"},
    )
    assert [column.title for column in table.columns] == [titles[0], "in words", *titles[1:]]
    assert [line[1].text for line in table.rows] == ["close rows", ""]


def test_a_label_has_its_tooltip_and_a_longer_one_that_ends_alike_has_not():
    drawing = "<svg><text x='1'>RING</text><text>BALL+RING</text><text>a &lt; b &amp; c</text></svg>"
    svg = with_tooltips(drawing, {"RING": "rows < 10 %", "a < b & c": "own & other", "absent": "nowhere"})
    texts = ElementTree.fromstring(svg).findall("text")
    assert [text.text for text in texts] == ["RING", "BALL+RING", "a < b & c"]
    assert [text.findtext("title") for text in texts] == ["rows < 10 %", None, "own & other"]
