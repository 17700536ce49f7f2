"""The table of algorithms, and the study's own params.yaml."""

import csv
import json
from argparse import Namespace

import pytest
import yaml
from by_path import ROOT, script
from test_trials_papers import metrics

from annulus.config.study import Study
from annulus.errors import InputError

table = script("stages/algorithms/table.py")
train = script("stages/algorithms/train.py")
settings = script("stages/algorithms/settings.py")
CONTENT = yaml.safe_load((ROOT / "stages/algorithms/params.yaml").read_text())


@pytest.fixture
def resolved(tmp_path):
    """Three methods over two rows, in two tables."""
    a = {"IRing": {"row": "RING", "top1_percent": 83.9}, "IR": {"row": "IR", "top1_percent": 81.2}}
    b = {"the same": {"row": "RING", "top1_percent": None}}
    tables = {"a": {"base": "IR", "methods": a}, "b": {"base": "the same", "methods": b}}
    own = CONTENT | {"scale": "tiny", "rows": {"IR": {}, "RING": {"sampler": "ring"}}, "tables": tables}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(own, sort_keys=False))
    return settings.main(Study(ROOT / "params.yaml", path))["table"]


@pytest.fixture
def arguments(tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for name, accuracies in (("IR", (40, 60)), ("RING", (41, 63))):
        content = metrics(*accuracies)
        del content["top1_percent"]
        (rows / f"{name}.json").write_text(json.dumps(content))
    return Namespace(rows=rows, table=tmp_path / "table.csv")


def test_the_table_has_every_method_of_every_table_with_scale_epochs_and_seeds(resolved, arguments, capsys):
    assert table.main(resolved, arguments).metrics == {}
    with arguments.table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["table"], row["method"]) for row in rows] == [("a", "IRing"), ("a", "IR"), ("b", "the same")]
    assert [(row["scale"], row["epochs"], row["seeds"]) for row in rows] == [("tiny", "20", "2")] * 3
    assert [row["paper_gain_percent"] for row in rows] == ["2.7", "0.0", ""]
    assert [row["here_gain_percent"] for row in rows] == ["2.0", "0.0", "0.0"]
    assert [row["here_gain_std_over_seeds_percent"] for row in rows] == ["1.41", "0.0", "0.0"]
    assert ["a", "IRing", "83.9"] in [line.split()[:3] for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("content", [None, "{"])
def test_a_row_without_its_metrics_is_named_with_the_way_out(resolved, arguments, content):
    path = arguments.rows / "RING.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match=r"RING\.json is missing or not a metrics file .*; run `dvc repro stages/algo"):
        table.main(resolved, arguments)
    assert not arguments.table.exists()


def test_every_method_of_a_table_is_a_row_beside_its_base_and_every_row_is_in_a_table():
    for content in CONTENT["tables"].values():
        assert content["base"] in content["methods"]
        for entry in content["methods"].values():
            assert entry.keys() - {"base"} == {"row", "top1_percent"}
            assert entry.get("base", content["base"]) in content["methods"]
            assert entry["top1_percent"] is None or 50 < entry["top1_percent"] < 100
    used = {entry["row"] for content in CONTENT["tables"].values() for entry in content["methods"].values()}
    assert used == set(CONTENT["rows"])
