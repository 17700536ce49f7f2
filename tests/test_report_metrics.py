"""Metrics read strictly: the error of a missing file names its command; a fault is named and kept."""

import hashlib
import json
import os
import re

import pytest
from by_path import ROOT
from report_root import committed, pipelines, written

from annulus.files.results import read_metrics
from annulus_lab.pipeline.projects import metrics_path
from annulus_lab.report.papers import setting
from annulus_lab.report.papers.metrics import Broken, Metrics, Missing
from annulus_lab.report.papers.setting import PaperSetting, processors, read_setting


@pytest.fixture
def metrics(tmp_path):
    for folder in ("stages/negatives/metrics", "metrics/main"):
        (tmp_path / folder).mkdir(parents=True)
    return Metrics(tmp_path)


def write(metrics, name, text):
    (metrics.root / metrics_path(name)).write_text(text)


def test_cells_that_are_numbers_are_numbers_and_all_others_text(metrics):
    write(metrics, "negatives/a.csv", "series,alpha,value,top1_percent\n16,lowest,,1.5e1\nEqCo,0.5,1,-2\n")
    assert metrics.rows("negatives/a.csv") == [
        {"series": "16", "alpha": "lowest", "value": "", "top1_percent": 15.0},
        {"series": "EqCo", "alpha": 0.5, "value": 1.0, "top1_percent": -2.0},
    ]
    write(metrics, "main/confusion.csv", "actual,predicted\nnan,inf\n")
    assert metrics.rows("main/confusion.csv") == [{"actual": "nan", "predicted": "inf"}], "names of classes"
    assert metrics.broken == []


def test_a_table_of_200_000_rows_and_a_file_of_200_mb_are_one_sentence_at_once(metrics):
    write(metrics, "negatives/long.csv", "series,value\n" + "a,1\n" * 200_000)
    with (metrics.root / metrics_path("negatives/large.csv")).open("w") as file:
        file.truncate(200 * 2**20)
    for name, sentence in (
        ("long", "holds 200,000 rows, at most 5,000 are shown"),
        ("large", "has 200 MB, at most 32"),
    ):
        with pytest.raises(Broken, match=f"stages/negatives/metrics/{name}.csv: {sentence}"):
            metrics.rows(f"negatives/{name}.csv")


def test_a_missing_file_names_the_command_that_writes_it(metrics):
    pipelines(metrics.root, "algorithms")
    for name, command in {
        "algorithms/table.csv": "make study STUDY=algorithms",
        "benchmarks/estimators.json": "make bench",
        "main/knn.json": "make repro",
    }.items():
        with pytest.raises(Missing, match=rf"{metrics_path(name)} is not there; `{command}` writes it") as missing:
            (metrics.values if name.endswith(".json") else metrics.rows)(name)
        assert (missing.value.name, missing.value.command) == (name, command)
    assert metrics.broken == []


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("k,nats\n1,0.5\n2,nan\n", "row 2: nats is nan"),
        ("k,nats\n1,0.5\n2\n", "row 2 has 1 fields, the header 2"),
        ("<<<<<<< ours\nk,nats\n1,0.5\n", "row 1 has 2 fields, the header 1"),
        ("k,k\n1,2\n", "names a column twice"),
        ("k,nats\n", "holds no rows"),
        ('k,nats\n1,"0.5', "is not CSV: unexpected end of data"),
        ('{"top1_percent": NaN}', "top1_percent is nan"),
        ('{"top1_percent": null}', "top1_percent is null, expected a number or text"),
        ("[1]", "holds list, expected names and numbers"),
        ('{"top1_percent": 1', "is not JSON: Expecting ',' delimiter: line 1 column 19 (char 18)"),
        ('{"top1_percent": "\\ud800"}', "'top1_percent' or its value holds half of a character, which no file can"),
        ('{"\\udfff": 1}', "'\\udfff' or its value holds half of a character, which no file can"),
        ('{"k": 1' + "0" * 400 + "}", "k is a number beyond 1e+300"),
        (b'{"k": "\xff"}', "is not text in UTF-8"),
        (None, "cannot be read: Is a pipe or a device, not a file"),
    ],
    ids=range(15),
)
def test_a_broken_file_says_what_is_wrong_and_is_kept_once(content, reason, metrics):
    table = isinstance(content, str) and content[0] not in "[{"
    path = metrics.root / "metrics/main" / ("a.csv" if table else "a.json")
    os.mkfifo(path) if content is None else path.write_bytes(
        content if isinstance(content, bytes) else content.encode()
    )
    for _ in range(2):
        with pytest.raises(Broken) as broken:
            (metrics.rows if table else metrics.values)(f"main/{path.name}")
        assert broken.value.name == f"main/{path.name}"
        assert broken.value.reason.startswith(reason)
    assert [each.name for each in metrics.broken] == [f"main/{path.name}"]


def test_a_missing_field_and_one_that_is_no_number_are_named(metrics):
    write(metrics, "main/knn.json", '{"top1_percent": 39.7, "dataset": "shapes", "k": 200}')
    assert metrics.number("main/knn.json", "k") == 200.0
    with pytest.raises(Broken, match="has no field 'top1_percnt'; did you mean 'top1_percent'"):
        metrics.number("main/knn.json", "top1_percnt")
    with pytest.raises(Broken, match="dataset is 'shapes', no number"):
        metrics.number("main/knn.json", "dataset")


@pytest.fixture
def table(metrics):
    rows = "CPC,1,64,4\nCPC,0.1,64,3\nCPC,lowest,64,5\nCPC,1,32,2\nML-CPC,1,64,\n"
    write(metrics, "negatives/a.csv", f"series,alpha,k,nats\n{rows}")
    return metrics


def test_a_column_comes_from_the_rows_asked_for_in_the_order_of_others(table):
    for where, by, expected in (
        ({"series": "CPC", "k": 64}, ["alpha"], [3.0, 4.0, 5.0]),  # text comes last
        ({"series": "CPC"}, ["k", "alpha"], [2.0, 3.0, 4.0, 5.0]),
        ({"series": "CPC", "alpha": 0.1}, [], 3.0),  # without an order, one row gives one number
        ({"alpha": "lowest"}, [], 5.0),
        ({"k": 64, "alpha": [0.1, "lowest"]}, ["alpha"], [3.0, 5.0]),  # any of a list
        ({"alpha": 0.1 + 1e-12}, [], 3.0),  # up to rounding
    ):
        assert table.column("negatives/a.csv", where, "nats", by) == expected


def test_rows_that_are_not_there_are_missing_and_columns_and_numbers_that_are_not_broken(table):
    pipelines(table.root, "negatives")
    for where, column, error, sentence in (
        ({"series": "EqCo"}, "nats", Missing, r"no row with series EqCo; `make study STUDY=negatives`"),
        ({"alpha": 0.1001}, "nats", Missing, "no row with alpha 0.1001"),
        ({"series": "CPC", "alpha": 1}, "nats", Broken, "2 rows with series CPC, alpha 1, expected one"),
        ({"series": "CPC"}, "nat", Broken, r"no column 'nat'; did you mean 'nats'\?; it has series, alpha, k, nats"),
        ({"serie": "CPC"}, "nats", Broken, "has no column 'serie'; did you mean 'series'"),
        ({"series": "ML-CPC"}, "nats", Broken, "nats is '', no number, in the row with series ML-CPC"),
    ):
        with pytest.raises(error, match=sentence):
            table.column("negatives/a.csv", where, column, [])
    for text in ('{"top1_percent": 1.0}', "{}", '{"0": {"a_percent": 1.0}, "b": {}}'):
        write(table, "main/knn.json", text)
        with pytest.raises(Broken, match=r'main/knn.json: holds no numbers by seed, as \{"0": \{...\}\}'):
            table.by_seed("main/knn.json")


def test_the_main_line_names_each_processor_once(metrics):
    write(metrics, "main/pretrain.json", json.dumps({str(i): {"processor": name} for i, name in enumerate("aba")}))
    assert processors(metrics) == "a; b"
    assert read_setting(metrics, "main/knn_history.csv").machine == "a; b"


def test_how_numbers_were_made_comes_from_their_study_and_their_own_columns(table):
    params = "scale: demo\nseeds: [0, 1]\ndefaults: {dataset: shapes}\n"
    (table.root / "stages" / "negatives" / "params.yaml").write_text(params)
    assert read_setting(table, "negatives/a.csv") == PaperSetting("shapes", "demo", None, 2)
    assert str(read_setting(table, "negatives/a.csv", {"scale": "paper", "epochs": 16.0, "seeds": 1.0})) == (
        "shapes, paper, 16 epochs, 1 seed"
    )
    assert read_setting(table, "negatives/a.csv", {"dataset": "folder"}).dataset == "shapes"


def test_a_study_with_images_of_its_own_names_them_as_its_scale_changes_them(tmp_path):
    stages, table = tmp_path / "stages/taught", Metrics(tmp_path)
    stages.mkdir(parents=True)
    folder = "{images: {dataset: folder, settings: {root: a/c}}}"
    content = (
        f"study: taught\nof: taught\nscale: demo\nscales: {{tiny: {{}}, demo: {folder}}}\nimages: {{dataset: shapes}}\n"
    )
    (stages / "params.yaml").write_text(content)
    for scale, dataset in (("demo", "c"), ("tiny", "shapes")):
        assert read_setting(table, "taught/a.csv", {"scale": scale}) == PaperSetting(dataset, scale)


def test_rows_name_the_set_that_their_series_has_and_what_else_they_were_measured_on(tmp_path):
    table = Metrics(tmp_path)
    for name, content in (
        ("distance", "sets: {large: {demo: {}}, first: {demo: {dataset: shapes}}}\ndefaults: {dataset: mosaics}\n"),
        ("detection", "tasks: {coco: {kind: masks}, voc: {kind: voc}}\nscenes: {roots: {coco: null, voc: data/v}}\n"),
        ("moving_digits", "world: {digits: data/mnist_images, grounds: data/stl10_images}\n"),
    ):
        (tmp_path / "stages" / name).mkdir(parents=True)
        (tmp_path / "stages" / name / "params.yaml").write_text(f"study: {name}\nof: {name}\nscale: demo\n" + content)
    offsets, tasks = [{"series": "shapes"}, {"series": "mosaics"}], [{"dataset": "fog", "task": "coco"}]
    assert read_setting(table, "distance/a.csv", offsets[0]).dataset == "shapes"
    assert read_setting(table, "distance/a.csv", *offsets).dataset == "shapes, mosaics"
    assert read_setting(table, "distance/a.csv", {"series": "other"}).dataset == "mosaics", "the first of the sets"
    detection = read_setting(table, "detection/a.csv", *tasks, tasks[0] | {"task": "voc"})
    assert str(detection) == "trained on fog, measured on drawn scenes, Pascal VOC 2007, demo"
    assert detection.data == {"fog", "drawn scenes", "pascal voc 2007"}
    assert read_setting(table, "transfer/a.csv", {"target": "mnist", "scale": "demo"}).measurement_data == ("mnist",)
    assert read_setting(table, "moving_digits/a.csv", {"scale": "paper"}).dataset == "Colorful-Moving-MNIST"


def test_a_study_has_what_it_takes_from_another_and_an_edited_file_says_nothing_of_its_numbers(tmp_path):
    stages, table = tmp_path / "stages", Metrics(tmp_path)
    for name, content in (
        (
            "law",
            "study: law\nof: law\nscale: demo\nseeds: [0]\ndefaults: {dataset: shapes, datasets.folder.root: a/b}\n",
        ),
        ("full", "study: full\nof: law\nseeds: [3, 4]\nscales: {demo: {dataset: folder}}\n"),
    ):
        (stages / name).mkdir(parents=True)
        (stages / name / "params.yaml").write_text(content)
    written(tmp_path, "full/a.csv", [{"value": 1}])
    assert read_setting(table, "full/a.csv") == PaperSetting("b", "demo", None, 2)
    own_digest = hashlib.md5((stages / "full/params.yaml").read_bytes()).hexdigest()
    lock = "    - path: params.yaml\n      hash: md5\n      md5: {}\n"
    for digest, expected in ((own_digest, PaperSetting("b", "demo", None, 2)), ("0" * 32, PaperSetting())):
        (stages / "full/dvc.lock").write_text(lock.format(digest))
        setting.study_params.cache_clear()
        assert read_setting(table, "full/a.csv") == expected


MAIN = "seeds: [3, 4]\nscale: a\ndataset: b\nscales: {a: {pretrain: {epochs: 9}}}\n"


@pytest.mark.parametrize(
    ("name", "content", "params", "setting"),
    [
        ("estimators/theorems.json", {}, "scale: paper\nseeds: [0, 1, 2]\n", "drawn numbers"),
        ("main/linear.json", {"epochs": 100}, MAIN, "b, a, 9 epochs, 2 seeds"),  # epochs of pretraining, not the probe
        ("benchmarks/step.json", {"processor": "AMD EPYC"}, "", "AMD EPYC"),
    ],
)
def test_how_others_were_made_comes_from_where_they_are(metrics, name, content, params, setting):
    study = metrics.root / ("stages/estimators" if name.startswith("estimators") else ".")
    for folder in (study, (metrics.root / metrics_path(name)).parent):
        folder.mkdir(parents=True, exist_ok=True)
    (study / "params.yaml").write_text(params)
    write(metrics, name, json.dumps(content | {"nats": 1.0}))
    assert str(read_setting(metrics, name)) == setting


def test_every_committed_metrics_file_is_whole():
    metrics = Metrics(ROOT)
    for name, path in (committed("*.*") | committed("*/**/*.*")).items():
        if path.suffix not in (".csv", ".json") or path.stem.endswith("_right") or "right" in path.parts:
            continue
        # DVC's files, after a run of the main line: a row for each test image; empty if images came in parts.
        if name in ("main/confusion.csv", "main/split.json"):
            continue
        if path.parent.name == "further":  # by target
            assert read_metrics(path), name
            continue
        by_seed = path.suffix == ".json" and re.match(r'\{\s*"[0-9]+": \{', path.read_text())
        assert (metrics.rows if path.suffix == ".csv" else metrics.by_seed if by_seed else metrics.values)(name), name
    assert metrics.broken == []
