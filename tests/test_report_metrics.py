"""Metrics read strictly: what is missing names its command, what is broken is named and kept."""

import os
from pathlib import Path

import pytest

from annulus.report.metrics import Broken, Metrics, Missing
from annulus.report.setting import Setting, read_setting

HERE = Path(__file__).parents[1]


@pytest.fixture
def metrics(tmp_path):
    (tmp_path / "metrics" / "negatives").mkdir(parents=True)
    (tmp_path / "metrics" / "main").mkdir()
    return Metrics(tmp_path)


def write(metrics, name, text):
    (metrics.root / "metrics" / name).write_text(text)


def test_cells_that_are_numbers_are_numbers_and_all_others_text(metrics):
    write(metrics, "negatives/a.csv", "series,alpha,value,top1_percent\n16,lowest,,1.5e1\nEqCo,0.5,1,-2\n")
    assert metrics.rows("negatives/a.csv") == [
        {"series": "16", "alpha": "lowest", "value": "", "top1_percent": 15.0},
        {"series": "EqCo", "alpha": 0.5, "value": 1.0, "top1_percent": -2.0},
    ]


def test_a_class_called_nan_is_a_name(metrics):
    write(metrics, "main/confusion.csv", "actual,predicted\nnan,inf\n")
    assert metrics.rows("main/confusion.csv") == [{"actual": "nan", "predicted": "inf"}]
    assert metrics.broken == []


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("algorithms/table.csv", "dvc repro stages/algorithms/dvc.yaml"),
        ("estimators/gaussians.csv", "dvc repro stages/estimators/dvc.yaml"),
        ("negatives/count.csv", "dvc repro stages/negatives/dvc.yaml"),
        ("benchmarks/estimators.json", "make bench"),
        ("main/knn.json", "make repro"),
        ("summary.json", "make repro"),
    ],
)
def test_a_missing_file_names_the_command_that_writes_it(name, command, metrics):
    with pytest.raises(Missing, match=rf"metrics/{name} is not there; `{command}` writes it") as missing:
        (metrics.values if name.endswith(".json") else metrics.rows)(name)
    assert (missing.value.name, missing.value.command) == (name, command)
    assert metrics.broken == []


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("k,nats\n1,0.5\n2,nan\n", "row 2: nats is nan"),
        ("k,nats\n1,-inf\n", "row 1: nats is -inf"),
        ("k,nats\n1,1e999\n", "row 1: nats is 1e999"),
        ("k,nats\n1,0.5\n2\n", "row 2 has 1 fields, the header 2"),
        ("k,nats\n1,0.5,7\n", "row 1 has 3 fields, the header 2"),
        ("<<<<<<< ours\nk,nats\n1,0.5\n", "row 1 has 2 fields, the header 1"),
        ("k,k\n1,2\n", "names a column twice"),
        ("k,nats\n", "holds no rows"),
        ("", "holds no rows"),
        ('k,nats\n1,"0.5', "is not CSV: unexpected end of data"),
    ],
)
def test_a_broken_table_says_what_is_wrong_and_is_kept_once(text, reason, metrics):
    write(metrics, "negatives/a.csv", text)
    for _ in range(2):
        with pytest.raises(Broken) as broken:
            metrics.rows("negatives/a.csv")
        assert (broken.value.name, broken.value.reason) == ("negatives/a.csv", reason)
    assert [(b.name, b.reason) for b in metrics.broken] == [("negatives/a.csv", reason)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"top1_percent": NaN}', "top1_percent is nan"),
        ('{"top1_percent": -Infinity}', "top1_percent is -inf"),
        ('{"top1_percent": null}', "top1_percent is null, expected a number or text"),
        ('{"top1_percent": [1, 2]}', "top1_percent is [1, 2], expected a number or text"),
        ("[1]", "holds list, expected names and numbers"),
        ('{"top1_percent": 1', "is not JSON: Expecting ',' delimiter: line 1 column 19 (char 18)"),
        ('{"top1_percent": "\\ud800"}', "'top1_percent' or its value holds half of a character, which no file can"),
        ('{"\\udfff": 1}', "'\\udfff' or its value holds half of a character, which no file can"),
        ('{"k": 1' + "0" * 400 + "}", "k is a number beyond 1e+300"),
        ('{"k": -1' + "0" * 400 + "}", "k is a number beyond 1e+300"),
        ('{"k": 1' + "0" * 5000 + "}", "is not JSON: Exceeds the limit (4300 digits)"),
        ("[" * 100_000, "is not JSON: maximum recursion depth exceeded"),
    ],
)
def test_a_broken_json_file_says_what_is_wrong(text, reason, metrics):
    write(metrics, "main/knn.json", text)
    with pytest.raises(Broken) as broken:
        metrics.values("main/knn.json")
    assert broken.value.reason.startswith(reason)
    assert metrics.broken == [broken.value]


def test_bytes_that_are_no_text_and_a_folder_in_the_way_are_broken(metrics):
    (metrics.root / "metrics" / "main" / "knn.json").write_bytes(b'{"k": "\xff"}')
    (metrics.root / "metrics" / "main" / "linear.json").mkdir()
    with pytest.raises(Broken, match=r"metrics/main/knn\.json: is not text in UTF-8"):
        metrics.values("main/knn.json")
    with pytest.raises(Broken, match=r"metrics/main/linear\.json: cannot be read: Is a directory"):
        metrics.values("main/linear.json")
    assert [b.name for b in metrics.broken] == ["main/knn.json", "main/linear.json"]


@pytest.mark.timeout(20)
@pytest.mark.parametrize("put", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")], ids=["pipe", "device"])
def test_what_would_be_read_for_ever_is_broken(put, metrics):
    put(metrics.root / "metrics" / "main" / "knn.json")
    with pytest.raises(Broken, match=r"metrics/main/knn\.json: cannot be read: Is a pipe or a device, not a file"):
        metrics.values("main/knn.json")


def test_a_missing_field_and_one_that_is_no_number_are_named(metrics):
    write(metrics, "main/knn.json", '{"top1_percent": 39.7, "dataset": "shapes", "k": 200}')
    assert metrics.number("main/knn.json", "k") == 200.0
    with pytest.raises(Broken, match="has no field 'top1_percnt'; did you mean 'top1_percent'"):
        metrics.number("main/knn.json", "top1_percnt")
    with pytest.raises(Broken, match="dataset is 'shapes', no number"):
        metrics.number("main/knn.json", "dataset")


@pytest.fixture
def table(metrics):
    write(
        metrics,
        "negatives/a.csv",
        "series,alpha,k,nats\nCPC,1,64,4\nCPC,0.1,64,3\nCPC,lowest,64,5\nCPC,1,32,2\nML-CPC,1,64,\n",
    )
    return metrics


def test_a_column_comes_in_the_order_of_others_with_text_last(table):
    assert table.column("negatives/a.csv", {"series": "CPC", "k": 64}, "nats", ["alpha"]) == [3.0, 4.0, 5.0]
    assert table.column("negatives/a.csv", {"series": "CPC"}, "nats", ["k", "alpha"]) == [2.0, 3.0, 4.0, 5.0]


def test_without_an_order_one_row_gives_one_number(table):
    assert table.column("negatives/a.csv", {"series": "CPC", "alpha": 0.1}, "nats", []) == 3.0
    assert table.column("negatives/a.csv", {"alpha": "lowest"}, "nats", []) == 5.0
    with pytest.raises(Broken, match="2 rows with series CPC, alpha 1, expected one"):
        table.column("negatives/a.csv", {"series": "CPC", "alpha": 1}, "nats", [])


def test_a_list_asks_for_any_of_it(table):
    assert table.column("negatives/a.csv", {"k": 64, "alpha": [0.1, "lowest"]}, "nats", ["alpha"]) == [3.0, 5.0]


def test_a_number_is_found_however_it_was_rounded(table):
    assert table.column("negatives/a.csv", {"alpha": 0.1 + 1e-12}, "nats", []) == 3.0
    with pytest.raises(Missing):
        table.column("negatives/a.csv", {"alpha": 0.1001}, "nats", [])


def test_rows_that_are_not_there_are_missing_a_column_that_is_not_is_broken(table):
    with pytest.raises(Missing, match=r"no row with series EqCo; `dvc repro stages/negatives/dvc\.yaml` writes it"):
        table.column("negatives/a.csv", {"series": "EqCo"}, "nats", [])
    with pytest.raises(Broken, match=r"has no column 'nat'; did you mean 'nats'\?; it has series, alpha, k, nats"):
        table.column("negatives/a.csv", {"series": "CPC"}, "nat", [])
    with pytest.raises(Broken, match="has no column 'serie'; did you mean 'series'"):
        table.column("negatives/a.csv", {"serie": "CPC"}, "nats", [])


def test_an_empty_cell_where_a_number_is_asked_for_is_broken(table):
    with pytest.raises(Broken, match="nats is '', no number, in the row with series ML-CPC"):
        table.column("negatives/a.csv", {"series": "ML-CPC"}, "nats", [])


def test_how_numbers_were_made_comes_from_their_study_and_their_own_columns(table):
    (table.root / "stages" / "negatives").mkdir(parents=True)
    params = "scale: demo\nseeds: [0, 1]\ndefaults: {dataset: shapes}\n"
    (table.root / "stages" / "negatives" / "params.yaml").write_text(params)
    assert read_setting(table, "negatives/a.csv") == Setting("shapes", "demo", None, 2)
    assert str(read_setting(table, "negatives/a.csv", {"scale": "paper", "epochs": 16.0, "seeds": 1.0})) == (
        "shapes, paper, 16 epochs, 1 seed"
    )


def test_a_study_without_trainings_says_its_seeds_itself(metrics):
    (metrics.root / "stages" / "estimators").mkdir(parents=True)
    (metrics.root / "stages" / "estimators" / "params.yaml").write_text("scale: paper\nseeds: [0, 1, 2]\n")
    (metrics.root / "metrics" / "estimators").mkdir()
    write(metrics, "estimators/theorems.json", '{"nats": 1.0}')
    assert str(read_setting(metrics, "estimators/theorems.json")) == "paper"


def test_the_main_line_s_epochs_are_of_pretraining_not_of_the_probe(metrics):
    write(metrics, "main/linear.json", '{"epochs": 100, "seed": 3}')
    params = "seed: 3\nscale: demo\ndataset: shapes\nscales: {demo: {pretrain: {epochs: 30}}}\n"
    (metrics.root / "params.yaml").write_text(params)
    assert str(read_setting(metrics, "main/linear.json")) == "shapes, demo, 30 epochs, 1 seed"


def test_a_benchmark_is_of_a_machine(metrics):
    (metrics.root / "metrics" / "benchmarks").mkdir()
    write(metrics, "benchmarks/step.json", '{"processor": "AMD EPYC", "ratio": 1.0}')
    assert str(read_setting(metrics, "benchmarks/step.json")) == "AMD EPYC"


def test_a_study_without_parameters_has_nothing_to_say(table):
    assert read_setting(table, "negatives/a.csv") == Setting()
    assert str(Setting()) == ""


def test_every_committed_metrics_file_is_whole():
    metrics = Metrics(HERE)
    for path in sorted((HERE / "metrics").rglob("*.*")):
        name = path.relative_to(HERE / "metrics").as_posix()
        if path.suffix in (".csv", ".json"):
            assert (metrics.rows if path.suffix == ".csv" else metrics.values)(name), name
    assert metrics.broken == []
