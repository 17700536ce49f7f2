"""The headline numbers of the main line over its seeds."""

import csv
import json
from argparse import Namespace

import numpy as np
import pytest
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


def of_seed(stage: str, seed: int) -> dict[str, float]:
    """Seed 4 has one more of everything but of what has a ceiling."""
    return {name: value + (seed == 4) * (name != "ceiling_nats") for name, value in MEASURED[stage].items()}


@pytest.fixture
def paths(tmp_path):
    for stage in MEASURED:
        (tmp_path / f"{stage}.json").write_text(json.dumps({str(seed): of_seed(stage, seed) for seed in SEEDS}))
    for stage, numbers in ACCURACIES.items():
        of_number = {}
        for number in numbers:
            of_number[number] = {seed: np.arange(1000) < 10 * of_seed(stage, seed)[number] for seed in SEEDS}
        write_right(tmp_path / f"{stage}_right.json", of_number)
    (tmp_path / "prepare.json").write_text(json.dumps({"train_images": 3600}))
    names = ["prepare", *MEASURED, "knn_right", "linear_right"]
    return Namespace(table=tmp_path / "table.csv", **{name: tmp_path / f"{name}.json" for name in names})


def test_intervals_of_accuracies_are_also_over_test_images(paths):
    """Where the seeds are as accurate as each other, with other images right, only the images vary."""
    of_number = {}
    for stage, numbers in ACCURACIES.items():
        alike = MEASURED[stage] | dict.fromkeys(numbers, 60.0)
        getattr(paths, stage).write_text(json.dumps({str(seed): alike for seed in SEEDS}))
        of_number |= {number: {seed: np.roll(np.arange(1000) < 600, 7 * seed) for seed in SEEDS} for number in numbers}
        write_right(getattr(paths, f"{stage}_right"), {number: of_number[number] for number in numbers})
    summary.main(VARIANT, paths)
    with paths.table.open() as file:
        rows = {row["number"]: row for row in csv.DictReader(file)}
    expected = over_seeds_and_images(np.stack([*of_number["top1_percent"].values()])).times(100).half
    assert expected > 2
    for name in ("knn_top1_percent", "nn1_top1_percent", "linear_top1_percent"):
        assert float(rows[name]["interval"]) == pytest.approx(expected, abs=0.005)


def test_headlines_are_means_over_seeds_and_the_table_has_each_seed_and_an_interval(paths, capsys):
    found = summary.main(VARIANT, paths).metrics
    assert (found["knn_top1_percent"], found["nn1_top1_percent"]) == pytest.approx((64.5, 60.5))
    assert found["linear_top1_percent"] == pytest.approx(70.5)
    assert (found["bound_nats"], found["bound_ceiling_nats"], found["train_images"]) == (4.0, 6.9324, 3600)
    with paths.table.open() as file:
        rows = {row["number"]: row for row in csv.DictReader(file)}
    assert list(rows) == list(HEADLINES)
    assert (rows["knn_top1_percent"]["seed0"], rows["knn_top1_percent"]["seed4"]) == ("64.00", "65.00")
    # Of two seeds that differ by 1, the half-width over seeds is 12.7 times 1/2; of a constant it is 0.
    assert rows["bound_nats"] == {"number": "bound_nats", "mean": "4.0000", "interval": "6.3531"} | {
        "seed0": "3.5000",
        "seed4": "4.5000",
    }
    assert rows["bound_ceiling_nats"]["interval"] == "0.0000"
    assert f"{found['knn_top1_interval_percent']:.2f}" == rows["knn_top1_percent"]["interval"]
    printed = capsys.readouterr().out
    assert f"knn_top1_percent            64.50 ± {rows['knn_top1_percent']['interval']}" in printed


def test_of_one_seed_no_number_has_an_interval(paths):
    found = summary.main(VARIANT | {"seeds": [0]}, paths).metrics
    assert "knn_top1_percent" in found
    assert "knn_top1_interval_percent" not in found
    with paths.table.open() as file:
        assert {row["interval"] for row in csv.DictReader(file)} == {""}


def test_a_number_that_need_not_be_there_is_left_out(paths):
    """Without a validation part, and where the set is empty."""
    optional = {"validation_nn1_percent": "validation_nn1_percent"}
    optional |= {"false_negatives_training_percent": "false_negatives_percent"}
    for stage in ("pretrain", "diagnostics"):
        left = {key: value for key, value in MEASURED[stage].items() if key not in optional}
        getattr(paths, stage).write_text(json.dumps({str(seed): left for seed in SEEDS}))
    assert not set(optional.values()) & set(summary.main(VARIANT, paths).metrics)


def test_what_a_stage_did_not_write_is_asked_for_by_name(paths):
    write_right(paths.linear_right, {"top1_percent": {0: np.ones(1000, dtype=bool)}})
    with pytest.raises(
        InputError, match=r"linear_right\.json has no top1_percent of seed 4; run `dvc repro -f linear`"
    ):
        summary.main(VARIANT, paths)
    paths.knn.write_text("{}")
    with pytest.raises(InputError, match=r"knn\.json has no top1_percent of seed 0; run `dvc repro -f knn`"):
        summary.main(VARIANT, paths)
    paths.knn.unlink()
    with pytest.raises(InputError, match=r"knn\.json is missing or not a metrics file .*run `dvc repro`"):
        summary.main(VARIANT, paths)


@pytest.mark.parametrize(("chosen", "offered"), [("uniform", "cave"), ("cave", "ring")])
def test_the_comparison_that_is_offered_changes_the_sampler(paths, capsys, chosen, offered):
    summary.main(VARIANT | {"sampler": chosen}, paths)
    assert f"`dvc exp run -S sampler={offered}`" in capsys.readouterr().out
