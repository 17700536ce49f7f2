"""The table of algorithms: the papers' numbers beside those here, gains in pairs of a seed."""

import csv
import json
from argparse import Namespace

import pytest
import yaml
from by_path import ROOT, script

from annulus.config.study import Study
from annulus.errors import InputError

table = script("stages/algorithms/table.py")
train = script("stages/algorithms/train.py")
CONTENT = yaml.safe_load((ROOT / "stages/algorithms/params.yaml").read_text())


def metrics(*accuracies: float, paper: float | None = None) -> dict:
    """What train.py writes of runs with these accuracies, seeds 0, 1, ..., with the paper's number if there is one."""
    mean = sum(accuracies) / len(accuracies)
    seeds = {f"linear_top1_seed{seed}_percent": value for seed, value in enumerate(accuracies)}
    return seeds | {
        "linear_top1_percent": mean,
        "linear_top1_spread_percent": 0.7,
        "knn_top1_percent": mean - 1,
        "bound_nats": 2.5,
        "ceiling_nats": 6.25,
        "epochs": 20,
        "seeds": len(accuracies),
        "top1_percent": paper,
    }


# --- a row of the table -------------------------------------------------------------------------------


def test_gains_are_taken_seed_by_seed_with_their_own_spread():
    """Differences 1, 3 and 5 have mean 3 and deviation 2, though the accuracies themselves vary by tens."""
    found = table.compared(metrics(41, 63, 25, paper=84.7), metrics(40, 60, 20, paper=81.2))
    assert found["here_percent"] == 43
    assert found["here_gain_percent"] == pytest.approx(3)
    assert found["here_gain_spread_percent"] == pytest.approx(2)
    assert found["here_spread_percent"] == 0.7
    assert found["paper_percent"] == 84.7
    assert found["paper_gain_percent"] == pytest.approx(3.5)
    assert (found["here_knn_percent"], found["bound_nats"], found["ceiling_nats"]) == (42, 2.5, 6.25)


def test_a_base_gains_nothing_over_itself_and_one_seed_has_no_spread():
    one = metrics(40, paper=81.2)
    found = table.compared(one, one)
    assert (found["paper_gain_percent"], found["here_gain_percent"], found["here_gain_spread_percent"]) == (0, 0, 0)


def test_what_the_papers_do_not_say_stays_empty():
    found = table.compared(metrics(41, 42), metrics(40, 40))
    assert (found["paper_percent"], found["paper_gain_percent"]) == ("", "")
    assert found["here_gain_percent"] == 1.5


# --- the whole table ----------------------------------------------------------------------------------


@pytest.fixture
def study(tmp_path):
    """Three methods over two rows, in two tables."""
    tables = {
        "a": {
            "base": "IR",
            "methods": {"IRing": {"row": "RING", "top1_percent": 83.9}, "IR": {"row": "IR", "top1_percent": 81.2}},
        },
        "b": {"base": "the same", "methods": {"the same": {"row": "RING", "top1_percent": None}}},
    }
    own = CONTENT | {"scale": "tiny", "rows": {"IR": {}, "RING": {"sampler": "ring"}}, "tables": tables}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(own, sort_keys=False))
    return Study(ROOT / "params.yaml", path)


@pytest.fixture
def arguments(tmp_path):
    rows = tmp_path / "rows"
    rows.mkdir()
    for name, accuracies in (("IR", (40, 60)), ("RING", (41, 63))):
        content = metrics(*accuracies)
        del content["top1_percent"]
        (rows / f"{name}.json").write_text(json.dumps(content))
    return Namespace(rows=rows, table=tmp_path / "table.csv")


def test_the_table_has_every_method_of_every_table_with_scale_epochs_and_seeds(study, arguments, capsys):
    assert table.main(study, arguments).metrics == {}
    with arguments.table.open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["table"], row["method"]) for row in rows] == [("a", "IRing"), ("a", "IR"), ("b", "the same")]
    assert [(row["scale"], row["epochs"], row["seeds"]) for row in rows] == [("tiny", "20", "2")] * 3
    assert [row["paper_gain_percent"] for row in rows] == ["2.7", "0.0", ""]
    assert [row["here_gain_percent"] for row in rows] == ["2.0", "0.0", "0.0"]
    assert [row["here_gain_spread_percent"] for row in rows] == ["1.41", "0.0", "0.0"]
    shown = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith(("a ", "b "))]
    assert shown[0] == ["a", "IRing", "83.9", "2.7", "52.0", "±", "0.7", "2.0", "±", "1.4"]
    assert shown[2] == ["b", "the", "same", "52.0", "±", "0.7", "0.0", "±", "0.0"]


@pytest.mark.parametrize("content", [None, "{"])
def test_a_row_without_its_metrics_is_named_with_the_way_out(study, arguments, content):
    path = arguments.rows / "RING.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match=r"RING\.json is missing or not a metrics file .*; run `dvc repro stages/algo"):
        table.main(study, arguments)
    assert not arguments.table.exists()


# --- the study's own params.yaml ----------------------------------------------------------------------


def test_every_method_of_a_table_is_a_row_and_every_row_is_in_a_table():
    used = {entry["row"] for content in CONTENT["tables"].values() for entry in content["methods"].values()}
    assert used == set(CONTENT["rows"])


@pytest.mark.parametrize("name", CONTENT["tables"])
def test_a_table_s_base_is_one_of_its_methods(name):
    content = CONTENT["tables"][name]
    assert content["base"] in content["methods"]
    for entry in content["methods"].values():
        assert entry.keys() - {"base"} == {"row", "top1_percent"}
        assert entry.get("base", content["base"]) in content["methods"]
        assert entry["top1_percent"] is None or 50 < entry["top1_percent"] < 100


def test_the_issue_s_tables_are_there():
    sizes = {name: len(content["methods"]) for name, content in CONTENT["tables"].items()}
    assert sizes["mutualinfo.table1"] == 26
    assert {"ring.table1a", "ring.table2a", "ring.table6", "mlcpc.table3a"} < set(sizes)
    methods = {row.get("method", "ir") for row in CONTENT["rows"].values()}
    assert methods == {"ir", "cmc", "moco", "simclr", "simo"}


def test_what_the_table_reads_is_what_a_row_writes():
    assert set(train.MEASURED) >= {"linear_top1_percent", "knn_top1_percent", "bound_nats", "ceiling_nats"}
