"""The table of algorithms, and the study's own params.yaml."""

import re
from argparse import Namespace

import pytest
import yaml
from by_path import ROOT, read_yaml, script
from checkout import rows_of
from stated import stated_params
from test_studies_papers import write_row

from annulus.errors import InputError
from annulus_lab.studies.shared.study import Study

table = script("stages/algorithms/table.py")
settings = script("stages/algorithms/settings.py")
CONTENT = read_yaml(ROOT / "stages/algorithms/params.yaml")


@pytest.fixture
def resolved(tmp_path):
    """Three methods over two rows, in two tables."""
    a = {"IRing": {"row": "RING", "top1_percent": 83.9}, "IR": {"row": "IR", "top1_percent": 81.2}}
    b = {"the same": {"row": "RING", "top1_percent": None}}
    tables = {"a": {"base": "IR", "methods": a}, "b": {"base": "the same", "methods": b}}
    rows = {"IR": {}, "RING": {"sampler": "ring"}}
    own = CONTENT | {"scale": "tiny", "rows": rows, "tables": tables, "pairs": {"RING": ["IR"]}}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(own, sort_keys=False))
    return settings.main(Study(stated_params(tmp_path / "root.yaml"), path))["table"]


@pytest.fixture
def arguments(tmp_path):
    for name, right in (("IR", (40, 60)), ("RING", (42, 66))):
        write_row(tmp_path, name, *right)
    paths = {name: tmp_path / name for name in ("rows", "right")}
    return Namespace(**paths, table=tmp_path / "table.csv", pairs=tmp_path / "pairs.csv")


def test_the_table_has_every_method_of_every_table_with_scale_epochs_and_seeds(resolved, arguments, capsys):
    assert table.main(resolved, arguments).metrics == {}
    rows = rows_of(arguments.table)
    assert [(row["table"], row["method"]) for row in rows] == [("a", "IRing"), ("a", "IR"), ("b", "the same")]
    assert [(row["scale"], row["epochs"], row["seeds"]) for row in rows] == [("tiny", "20", "2")] * 3
    assert [row["paper_gain_percent"] for row in rows] == ["2.7", "0.0", ""]
    assert [row["here_gain_percent"] for row in rows] == ["2.0", "0.0", "0.0"]
    assert [row["verdict"] == "base" for row in rows] == [False, True, True]
    assert float(rows[0]["here_gain_interval_percent"]) > 0 == float(rows[1]["here_gain_interval_percent"])
    (pair,) = rows_of(arguments.pairs)
    assert (pair["row"], pair["base"], pair["gain_percent"], pair["scale"]) == ("RING", "IR", "2.0", "tiny")
    assert pair["gain_interval_percent"] == rows[0]["here_gain_interval_percent"]
    assert ["a", "IRing", "83.9"] in [line.split()[:3] for line in capsys.readouterr().out.splitlines()]


def test_broken_metrics_of_a_row_are_named_with_the_way_out(resolved, arguments):
    (arguments.rows / "RING.json").write_text("{")
    with pytest.raises(InputError, match=r"RING\.json is missing or not a metrics file .*; run `dvc repro`"):
        table.main(resolved, arguments)
    assert not arguments.table.exists()


@pytest.mark.parametrize("lacking", ["tables", "pairs"])
def test_a_pair_without_a_table_and_a_table_without_a_pair_are_enough(resolved, arguments, capsys, lacking):
    table.main(resolved | {lacking: {}}, arguments)
    counts = {"tables": (0, 1), "pairs": (3, 0)}[lacking]
    assert (len(rows_of(arguments.table)), len(rows_of(arguments.pairs))) == counts
    pairs = [line.split()[:4] for line in capsys.readouterr().out.splitlines() if line.startswith("RING ")]
    assert pairs == [["RING", "IR", "2.0", "±"]] * counts[1]


def test_before_two_rows_have_run_there_is_nothing_to_compare(resolved, arguments):
    (arguments.rows / "RING.json").unlink()
    with pytest.raises(InputError, match="rows: nothing to compare has run yet; run a row and its base, each"):
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
    assert {row for base, others in CONTENT["pairs"].items() for row in [base, *others]} <= used


def rows_at(tmp_path, scale, row):
    """The run of a row of the study's own file at a scale."""
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(CONTENT | {"scale": scale, "rows": CONTENT["rows"] | {"IR": row}}, sort_keys=False))
    return settings.main(Study(stated_params(tmp_path / "root.yaml"), path))["rows/IR"]["run"]


def test_a_row_s_settings_of_a_scale_stand_over_its_own_at_that_scale_alone(tmp_path):
    key = "methods.ir.temperature"
    row = {key: 0.3, "scales": {"demo": {key: 0.4, "scales.demo.pretrain.epochs": 2}}}
    runs = {scale: rows_at(tmp_path, scale, row) for scale in ("tiny", "demo", "paper")}
    assert [runs[scale]["methods"]["ir"]["temperature"] for scale in runs] == [0.3, 0.4, 0.3]
    assert [runs[scale]["scales"][scale]["pretrain"]["epochs"] for scale in runs] == [1, 2, 300]


@pytest.mark.parametrize(
    ("scales", "message"),
    [
        ({"dmeo": {}}, "rows.IR.scales: 'dmeo' is not a scale; did you mean 'demo'?"),
        (5, "rows.IR.scales: 5 refused; expected settings for each scale"),
        ({"demo": 5}, "rows.IR.scales: {'demo': 5} refused; expected settings for each scale"),
    ],
)
def test_a_row_s_scales_are_checked(tmp_path, scales, message):
    with pytest.raises(InputError, match=re.escape(message)):
        rows_at(tmp_path, "tiny", {"scales": scales})
