"""The parts of the study `negatives`: from outcomes over a grid to its tables."""

import csv
from argparse import Namespace
from collections.abc import Mapping
from pathlib import Path

import pytest
import yaml
from by_path import ROOT, script

from annulus.config import AllParams
from annulus.config.study import Study
from annulus.estimators.spread import Spread
from annulus.trials import Outcome

part = script("stages/negatives/part.py")
estimates = script("stages/negatives/estimates.py")
CONTENT = yaml.safe_load((ROOT / "stages/negatives/params.yaml").read_text())


def outcome(accuracy: float, validation: tuple[float, ...] = (10.0, 20.0)) -> Outcome:
    """A run with this accuracy of the nearest neighbour, and so much on its validation images after each epoch."""
    metrics = {"nn1_top1_percent": accuracy, "knn_top1_percent": 31.0, "linear_top1_percent": 32.0}
    metrics |= {"bound_nats": 2.0, "ceiling_nats": 6.0, "epochs": len(validation)}
    history = [
        {
            "epoch": epoch + 1,
            "validation_nn1_percent": value,
            "gradient_norm": 0.5 * epoch,
            "gradient_norm_std": 0.25,
        }
        for epoch, value in enumerate(validation)
    ]
    return Outcome(metrics, history)


# --- tables -------------------------------------------------------------------------------------------


def test_a_swept_figure_has_a_row_per_point_with_the_mean_over_seeds():
    runs = {
        ("IR", 4): [outcome(10), outcome(20)],
        ("IR", 16): [outcome(30), outcome(41)],
        ("EqCo", 4): [outcome(50), outcome(60.005)],
        ("EqCo", 16): [outcome(70), outcome(80)],
    }
    assert part.by_value(runs) == [
        {"series": "IR", "x": 4, "nn1_top1_percent": 15.0},
        {"series": "IR", "x": 16, "nn1_top1_percent": 35.5},
        {"series": "EqCo", "x": 4, "nn1_top1_percent": 55.0},
        {"series": "EqCo", "x": 16, "nn1_top1_percent": 75.0},
    ]


def test_a_figure_without_a_sweep_has_a_row_per_epoch_of_each_series():
    runs = {
        ("none", None): [outcome(0, (1.0, 2.0)), outcome(0, (3.0, 6.0))],
        ("linear", None): [outcome(0, (5.0, 7.0)), outcome(0, (5.0, 8.0))],
    }
    assert part.by_epoch(runs) == [
        {"series": "none", "x": 1, "nn1_top1_percent": 2.0},
        {"series": "none", "x": 2, "nn1_top1_percent": 4.0},
        {"series": "linear", "x": 1, "nn1_top1_percent": 5.0},
        {"series": "linear", "x": 2, "nn1_top1_percent": 7.5},
    ]


def test_a_point_s_numbers_are_over_seeds_with_the_last_epoch_s_gradient():
    found = part.numbers(("IR", 16), [outcome(30, (1.0, 1.0)), outcome(40, (1.0, 1.0, 1.0))])
    assert (found["series"], found["value"], found["seeds"]) == ("IR", 16, 2)
    assert (found["nn1_top1_percent"], found["nn1_top1_spread_percent"]) == (35, pytest.approx(50**0.5))
    assert (found["linear_top1_percent"], found["linear_top1_spread_percent"]) == (32, 0)
    assert (found["bound_nats"], found["ceiling_nats"]) == (2, 6)
    assert (found["gradient_mean_norm"], found["gradient_mean_spread_norm"]) == (0.75, pytest.approx(0.125**0.5))
    assert (found["gradient_std_norm"], found["gradient_std_spread_norm"]) == (0.25, 0)
    assert part.numbers(("none", None), [outcome(30)])["value"] == ""


# --- a whole part, its runs made up -------------------------------------------------------------------


class MadeUp:
    """Trials whose accuracy is told by the parameters; remembers what was asked for."""

    asked: dict[object, AllParams]

    def __init__(self, stage: str, splits: object) -> None:
        assert stage == "negatives"

    def run(self, variants: Mapping) -> dict:
        MadeUp.asked = dict(variants)
        return {
            key: outcome(1000 * params.methods.ir.temperature + params.seed + 10 * (params.sampler == "ball"))
            for key, params in variants.items()
        }

    def done(self) -> None:
        raise AssertionError("the states are forgotten by who writes the results")


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Runs a part with made-up trials; gives its tables."""
    monkeypatch.setattr(part, "Trials", MadeUp)
    monkeypatch.setattr(part, "load_splits", lambda folder: None)

    def run(content: dict, seeds: list[int]) -> tuple[list[dict], list[dict]]:
        path = tmp_path / "study.yaml"
        own = CONTENT | {"scale": "tiny", "seeds": seeds, "parts": {"temperature": content}}
        path.write_text(yaml.safe_dump(own, sort_keys=False))
        arguments = Namespace(
            part="temperature", images=tmp_path, points=tmp_path / "points.csv", figure=tmp_path / "figure.csv"
        )
        results = part.main(Study(ROOT / "params.yaml", path), arguments)
        assert results.metrics == {}
        assert results.written.__name__ == "done"
        return read(arguments.points), read(arguments.figure)

    return run


def read(path: Path) -> list[dict]:
    with path.open() as file:
        return list(csv.DictReader(file))


def test_a_part_runs_its_whole_grid_with_every_seed(made):
    """The sweep's value counts also where a series sets the section that it is in."""
    section = yaml.safe_load((ROOT / "params.yaml").read_text())["methods"]["ir"]
    series = {"IR": {"methods.ir": section | {"bank_rate": 0.25}}, "ball": {"sampler": "ball"}}
    content = {"figure": "x", "sweep": {"keys": ["methods.ir.temperature"], "values": [0.2, 0.1]}, "series": series}
    points, figure = made(content, [3, 5])
    assert len(MadeUp.asked) == 2 * 2 * 2
    assert {params.seed for params in MadeUp.asked.values()} == {3, 5}
    assert figure == [
        {"series": "IR", "x": "0.2", "nn1_top1_percent": "204.0"},
        {"series": "IR", "x": "0.1", "nn1_top1_percent": "104.0"},
        {"series": "ball", "x": "0.2", "nn1_top1_percent": "214.0"},
        {"series": "ball", "x": "0.1", "nn1_top1_percent": "114.0"},
    ]
    found = [(point["series"], point["value"], point["nn1_top1_percent"], point["seeds"]) for point in points]
    assert found == [
        ("IR", "0.2", "204.0", "2"),
        ("IR", "0.1", "104.0", "2"),
        ("ball", "0.2", "214.0", "2"),
        ("ball", "0.1", "114.0", "2"),
    ]
    assert {point["nn1_top1_spread_percent"] for point in points} == {"1.41"}


def test_a_part_without_a_sweep_is_accuracy_over_epochs(made):
    points, figure = made({"figure": "x", "series": {"none": {}, "ball": {"sampler": "ball"}}}, [0])
    assert [tuple(row.values()) for row in figure] == [
        (series, epoch, accuracy) for series in ("none", "ball") for epoch, accuracy in (("1", "10.0"), ("2", "20.0"))
    ]
    assert [(point["series"], point["value"]) for point in points] == [("none", ""), ("ball", "")]


# --- bias and variance --------------------------------------------------------------------------------


def test_a_row_of_estimates_has_the_deviation_s_own_spread_over_seeds():
    seeds = [Spread(1.0, -0.5, 0.1), Spread(2.0, -1.5, 0.3)]
    found = estimates.row(("NCE", 16), Spread(1.5, -1.0, 0.2), seeds)
    assert found == {
        "series": "NCE",
        "k": 16,
        "seeds": 2,
        "mean_nats": 1.5,
        "bias_nats": -1.0,
        "deviation_nats": 0.2,
        "deviation_spread_nats": pytest.approx(0.02**0.5),
    }
    assert estimates.row(("NCE", 16), seeds[0], seeds[:1])["deviation_spread_nats"] == 0


# --- the study's own params.yaml ----------------------------------------------------------------------


def test_the_issue_s_figures_are_there():
    figures = {content["figure"] for content in CONTENT["parts"].values()}
    assert figures >= {"ring.fig2a", "ring.fig2b", "mutualinfo.fig2", "mutualinfo.fig7", "mutualinfo.fig9"}
    assert figures >= {"mutualinfo.fig10", "eqco.fig2", "eqco.fig3"}
    assert set(CONTENT["parts"]["witness"]["series"]) >= {"dot", "bilinear"}
    assert len(CONTENT["parts"]["witness"]["series"]) == 5
    assert len(CONTENT["parts"]["annealing"]["series"]) == 5
