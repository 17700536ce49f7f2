"""The headline numbers of the main line over its seeds."""

import csv
import json
import math
from argparse import Namespace

import numpy as np
import pytest
import scipy.stats
import summary

from annulus.errors import InputError
from annulus.evals.headlines import HEADLINES
from annulus.evals.intervals import over_seeds_and_images
from annulus.files.right import write_right

SEEDS = [0, 4]
MEASURED = {
    "pretrain": {
        "loss_nats": 3.25,
        "bound_nats": 3.5,
        "ceiling_nats": 6.9324,
        "validation_nn1_percent": 61.0,
        "validation_images": 400,
    },
    "knn": {"nn1_top1_percent": 60.0, "top1_percent": 64.0, "top5_percent": 97.0},
    "linear": {"top1_percent": 70.0, "top5_percent": 98.5},
    "diagnostics": {"alignment": 0.5, "uniformity": -2.5, "effective_rank": 40.0}
    | {"false_negatives_training_percent": 21.5},
}
VARIANT = {name: f"some-{name}" for name in summary.READS} | {"seeds": SEEDS}
ACCURACIES = {"knn": ("top1_percent", "nn1_top1_percent"), "linear": ("top1_percent",)}


def seed_numbers(stage: str, seed: int) -> dict[str, float]:
    """Numbers of a stage; seed 4 has one more of each, except of the ceiling."""
    return {name: value + (seed == 4) * (name != "ceiling_nats") for name, value in MEASURED[stage].items()}


@pytest.fixture
def paths(tmp_path):
    numbers = tmp_path / "numbers"
    numbers.mkdir()
    for stage in MEASURED:
        (numbers / f"{stage}.json").write_text(json.dumps({str(seed): seed_numbers(stage, seed) for seed in SEEDS}))
    for stage, accuracies in ACCURACIES.items():
        right = {}
        for number in accuracies:
            right[number] = {seed: np.arange(1000) < 10 * seed_numbers(stage, seed)[number] for seed in SEEDS}
        write_right(numbers / f"{stage}_right.json", right)
    (numbers / "prepare.json").write_text(json.dumps({"train_images": 3600}))
    return Namespace(numbers=numbers, main=tmp_path / "main", table=tmp_path / "table.csv")


def test_intervals_of_accuracies_are_also_over_test_images(paths):
    """Both seeds are equally accurate with other images right, so only the images vary."""
    right = {}
    for stage, numbers in ACCURACIES.items():
        alike = MEASURED[stage] | dict.fromkeys(numbers, 60.0)
        (paths.numbers / f"{stage}.json").write_text(json.dumps({str(seed): alike for seed in SEEDS}))
        right |= {number: {seed: np.roll(np.arange(1000) < 600, 7 * seed) for seed in SEEDS} for number in numbers}
        write_right(paths.numbers / f"{stage}_right.json", {number: right[number] for number in numbers})
    summary.main(VARIANT, paths)
    with paths.table.open() as file:
        rows = {row["number"]: row for row in csv.DictReader(file)}
    expected = over_seeds_and_images(np.stack([*right["top1_percent"].values()])).times(100).half
    assert expected > 2
    for name in ("knn_top1_percent", "nn1_top1_percent", "linear_top1_percent"):
        assert float(rows[name]["interval"]) == pytest.approx(expected, abs=0.005)


def test_headlines_are_means_over_seeds_and_the_table_has_each_seed_and_an_interval(paths, capsys):
    metrics = summary.main(VARIANT, paths).metrics
    assert (metrics["knn_top1_percent"], metrics["nn1_top1_percent"]) == pytest.approx((64.5, 60.5))
    assert metrics["linear_top1_percent"] == pytest.approx(70.5)
    assert (metrics["bound_nats"], metrics["bound_ceiling_nats"], metrics["train_images"]) == (4.0, 6.9324, 3600)
    with paths.table.open() as file:
        rows = {row["number"]: row for row in csv.DictReader(file)}
    assert list(rows) == [name for name in HEADLINES if not name.startswith("crop_retrieval")], "of images with classes"
    assert (rows["knn_top1_percent"]["seed0"], rows["knn_top1_percent"]["seed4"]) == ("64.00", "65.00")
    # For two seeds that differ by 1, the half-width over seeds is 12.7 times 1/2; for a constant it is 0.
    assert rows["bound_nats"] == {"number": "bound_nats", "mean": "4.0000", "interval": "6.3531"} | {
        "seed0": "3.5000",
        "seed4": "4.5000",
    }
    assert rows["bound_ceiling_nats"]["interval"] == "0.0000"
    assert f"{metrics['knn_top1_interval_percent']:.2f}" == rows["knn_top1_percent"]["interval"]
    printed = capsys.readouterr().out
    assert f"knn_top1_percent            64.50 ± {rows['knn_top1_percent']['interval']}" in printed


def test_what_git_keeps_are_copies_of_the_numbers_and_not_of_what_a_kill_has_left(paths):
    (paths.numbers / ".knn.json.123").touch()
    summary.main(VARIANT, paths)
    copies = {path.name: path.read_bytes() for path in paths.main.iterdir()}
    assert copies == {path.name: path.read_bytes() for path in paths.numbers.glob("[!.]*.json")}
    assert len(copies) == 7


def test_of_one_seed_no_number_has_an_interval(paths):
    metrics = summary.main(VARIANT | {"seeds": [0]}, paths).metrics
    assert "knn_top1_percent" in metrics
    assert "knn_top1_interval_percent" not in metrics
    with paths.table.open() as file:
        assert {row["interval"] for row in csv.DictReader(file)} == {""}


def test_a_number_that_need_not_be_there_is_left_out(paths):
    """There is no validation part, and the set is empty."""
    optional = {"validation_nn1_percent": "validation_nn1_percent"}
    optional |= {"false_negatives_training_percent": "false_negatives_percent"}
    for stage in ("pretrain", "diagnostics"):
        left = {key: value for key, value in MEASURED[stage].items() if key not in optional}
        (paths.numbers / f"{stage}.json").write_text(json.dumps({str(seed): left for seed in SEEDS}))
    assert not set(optional.values()) & set(summary.main(VARIANT, paths).metrics)


def test_what_a_stage_did_not_write_is_asked_for_by_name(paths):
    write_right(paths.numbers / "linear_right.json", {"top1_percent": {0: np.ones(1000, dtype=bool)}})
    with pytest.raises(
        InputError, match=r"linear_right\.json has no top1_percent of seed 4; run `dvc repro -f linear`"
    ):
        summary.main(VARIANT, paths)
    (paths.numbers / "knn.json").write_text("{}")
    with pytest.raises(InputError, match=r"knn\.json has no top1_percent of seed 0; run `dvc repro -f knn`"):
        summary.main(VARIANT, paths)
    (paths.numbers / "knn.json").unlink()
    with pytest.raises(InputError, match=r"knn\.json is missing or not a metrics file .*run `dvc repro`"):
        summary.main(VARIANT, paths)


def test_no_table_is_printed_where_make_prints_it_last(paths, capsys, monkeypatch):
    monkeypatch.setenv("ANNULUS_RESULT", "last")
    summary.main(VARIANT, paths)
    assert capsys.readouterr().out == ""


def test_without_classes_the_shares_of_crops_are_the_headline_and_no_accuracy(paths, capsys):
    crops = {
        f"crop_retrieval{name}_percent": share for name, share in (("", 40.0), ("_pixels", 16.0), ("_colour", 14.0))
    }
    crops |= {"crop_retrieval_images": 50, "crop_retrieval_chance_percent": 2.0}
    for stage, values in (("knn", crops), ("linear", {})):
        (paths.numbers / f"{stage}.json").write_text(json.dumps({str(seed): values for seed in SEEDS}))
        write_right(paths.numbers / f"{stage}_right.json", {})
    metrics = summary.main(VARIANT, paths).metrics
    headlines = ["crop_retrieval_percent", "crop_retrieval_pixels_percent", "crop_retrieval_colour_percent"]
    assert {name: metrics[name] for name in crops if name in metrics} == {name: crops[name] for name in headlines}
    with paths.table.open() as file:
        rows = {row["number"]: row for row in csv.DictReader(file)}
    assert not [name for name in rows if "top1" in name]
    # Equal in both seeds by chance, a share has the interval over 2 x 50 images, by Laplace's rule.
    likely = (0.4 * 100 + 1) / 102
    expected = 100 * math.sqrt(likely * (1 - likely) / 100) * scipy.stats.t.ppf(0.975, 99)
    assert float(rows["crop_retrieval_percent"]["interval"]) == pytest.approx(expected, abs=0.01)
    printed = capsys.readouterr().out
    assert "crop_retrieval_pixels_percent     16.00 ± " in printed
    assert "crop_retrieval_percent is the share of crops of test images" in printed
