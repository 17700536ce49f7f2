"""All runs as one CSV or Parquet: of the main line by seed, of studies by seed or as the rows of their tables."""

import csv
import hashlib
import json

import pytest
from measured import measure_study
from test_compare import experiment, files, root, write  # noqa: F401 (root is a fixture)

from annulus.errors import InputError
from annulus_lab.compare import all_runs, runs_table


@pytest.fixture
def studies(root):  # noqa: F811
    """The main line, an experiment, two studies of rows (one with a file per seed), and a study with a table alone."""
    experiment(root, "noisy-coho", files(gain=2.0, sampler="uniform"))
    numbers = {"linear_top1_percent": 61.5, "epochs": 5}
    (root / "stages/algorithms/metrics/rows").mkdir(parents=True)
    (root / "stages/algorithms/metrics/rows/IRing (+C_i).json").write_text(json.dumps({"0": numbers, "1": numbers}))
    (root / "stages/cifar10/metrics/rows/MoCo").mkdir(parents=True)
    (root / "stages/cifar10/metrics/rows/MoCo/2.json").write_text(json.dumps({"2": {"knn_top1_percent": 40.25}}))
    (root / "stages/cifar10/metrics/right/MoCo").mkdir(parents=True)
    (root / "stages/cifar10/metrics/right/MoCo/2.json").write_text(json.dumps({"2": {"knn_top1_percent": 1}}))
    (root / "stages/transfer/metrics").mkdir(parents=True)
    (root / "stages/transfer/metrics/digits.json").write_text(json.dumps({"main_0_linear_top1_percent": 1.0}))
    measure_study(root, points="table,series,seeds,top1_percent,scale\nring.table1a,ring,3,40.0,demo\n")
    return root


def write_runs(root, file):  # noqa: F811
    runs_table.main(["--root", str(root), "--to", str(file)])
    with file.open(newline="") as text:
        return list(csv.DictReader(text))


def test_every_run_is_a_row_with_its_setting_its_seed_and_its_numbers(studies, tmp_path, capsys):
    rows = write_runs(studies, tmp_path / "runs.csv")
    assert capsys.readouterr().out == f"{tmp_path}/runs.csv: {len(rows)} runs\n"
    main = [row for row in rows if row["study"] == "main"]
    assert [(row["run"], row["seed"]) for row in main] == [
        (name, str(seed)) for name in ("HEAD", "noisy-coho") for seed in range(5)
    ]
    assert {row["setting"] for row in main if row["run"] == "noisy-coho"} == {"sampler=uniform"}
    assert {row["setting"] for row in main if row["run"] == "HEAD"} == {"sampler=ring"}
    assert main[0]["bound_nats"] == "0.5"
    assert main[5]["bound_nats"] == "2.5"
    rest = [{name: text for name, text in row.items() if text} for row in rows if row["study"] != "main"]
    iring = {"study": "algorithms", "setting": "IRing (+C_i)", "linear_top1_percent": "61.5", "epochs": "5"}
    assert rest == [
        iring | {"seed": "0"},
        iring | {"seed": "1"},
        {"study": "cifar10", "setting": "MoCo", "seed": "2", "knn_top1_percent": "40.25"},
        {"study": "toys", "setting": "file=points table=ring.table1a series=ring"}
        | {"seeds": "3.0", "top1_percent": "40.0", "scale": "demo"},
    ]


def test_the_workspace_stands_beside_head_where_it_is_another_run(studies, tmp_path):
    write(studies, files(gain=1.0, bound="cpc"))
    runs = {row["run"]: row for row in write_runs(studies, tmp_path / "runs.csv") if row["study"] == "main"}
    assert list(runs) == ["HEAD", "workspace", "noisy-coho"]
    assert (runs["HEAD"]["bound_nats"], runs["workspace"]["bound_nats"]) == ("0.5", "1.5")
    assert runs["workspace"]["setting"] == "bound=cpc sampler=ring"
    write(studies, files(bound="cpc"))
    settings = {
        row["run"]: row["setting"] for row in write_runs(studies, tmp_path / "runs.csv") if row["study"] == "main"
    }
    assert settings["workspace"] == "bound=cpc sampler=ring", "the same numbers of another setting"


def test_parquet_has_the_same_content_with_types(studies, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    rows = write_runs(studies, tmp_path / "runs.csv")
    runs_table.main(["--root", str(studies), "--to", str(tmp_path / "runs.parquet")])
    table = parquet.read_table(tmp_path / "runs.parquet")
    assert str(table.schema.field("seed").type) == "int64"
    assert str(table.schema.field("bound_nats").type) == "double"
    for row, values in zip(rows, table.to_pylist(), strict=True):
        for name, text in row.items():
            value = values[name]
            assert text == ("" if value is None else value) if isinstance(value, str | None) else float(text) == value


def test_a_run_of_other_code_is_left_out_with_a_warning(studies, tmp_path, caplog):
    write(studies, {"params.yaml": (studies / "params.yaml").read_text().replace("ring", "uniform", 1)})
    rows = write_runs(studies, tmp_path / "runs.csv")
    assert "workspace" not in {row["run"] for row in rows}
    assert "workspace is left out: " in caplog.text


def test_a_missing_pyarrow_and_another_ending_are_one_sentence(studies, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"runs\.xlsx ends in '\.xlsx'; name a file that ends in \.csv or \.p"):
        runs_table.main(["--root", str(studies), "--to", str(tmp_path / "runs.xlsx")])
    monkeypatch.setattr(all_runs, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"runs\.parquet is Parquet, which needs pyarrow: pip install pyarrow, o"):
        runs_table.main(["--root", str(studies), "--to", str(tmp_path / "runs.parquet")])


def test_a_row_of_a_study_that_is_not_its_lock_s_is_left_out_with_a_warning(studies, tmp_path, caplog):
    """A killed `dvc exp run` at another scale leaves such a row."""
    name = "metrics/rows/IRing (+C_i).json"
    lock = {"stages": {"train@IRing": {"outs": [{"path": name, "md5": hashlib.md5(b"whole").hexdigest()}]}}}
    write(studies, {"stages/algorithms/dvc.yaml": "", "stages/algorithms/dvc.lock": json.dumps(lock)})
    rows = write_runs(studies, tmp_path / "runs.csv")
    assert [row["setting"] for row in rows if row["study"] in ("algorithms", "cifar10")] == ["MoCo"]
    assert f"left out: stages/algorithms/{name} differs from dvc.lock" in caplog.text


def test_the_folder_of_the_table_is_not_made(tmp_path):
    with pytest.raises(InputError, match=r"^--to .*no/such/runs.csv: there is no folder .*no/such; make it, or name"):
        runs_table.main(["--root", str(tmp_path), "--to", str(tmp_path / "no/such/runs.csv")])
    assert not (tmp_path / "no").exists()
