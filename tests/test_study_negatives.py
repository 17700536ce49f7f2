"""The parts of the study `negatives`: from outcomes over a grid to its tables."""

import json
from argparse import Namespace
from collections.abc import Mapping

import pytest
import yaml
from by_path import ROOT, script
from test_studies import read
from test_trials_outcomes import outcome

from annulus.config.negatives import BallParams, UniformParams
from annulus.config.study import Study
from annulus.trials.runs import Run

part = script("stages/negatives/part.py")
settings = script("stages/negatives/settings.py")
CONTENT = yaml.safe_load((ROOT / "stages/negatives/params.yaml").read_text())


class MadeUp:
    """Trials whose accuracy is told by the parameters; remembers what was asked for."""

    asked: dict[object, Run]

    def __init__(self, stage: str, splits: object) -> None:
        assert stage == "negatives"

    def run(self, variants: Mapping) -> dict:
        MadeUp.asked = dict(variants)
        return {
            key: outcome(1000 * run["methods.${method}"].temperature + run["seed"] + 10 * ("ball" in key[0][0]))
            for key, run in variants.items()
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
        arguments = Namespace(images=tmp_path, points=tmp_path / "points.csv", figure=tmp_path / "figure.csv")
        resolved = json.loads(json.dumps(settings.main(Study(ROOT / "params.yaml", path))))
        results = part.main(resolved["parts/temperature"], arguments)
        assert results.metrics == {}
        assert results.written.__name__ == "done"
        return read(arguments.points), read(arguments.figure)

    return run


def test_a_part_runs_its_whole_grid_with_every_seed(made):
    """The sweep's value counts also where a series sets the section that it is in."""
    section = yaml.safe_load((ROOT / "params.yaml").read_text())["methods"]["ir"]
    series = {"IR": {"methods.ir": section | {"bank_rate": 0.25}}, "ball": {"sampler": "ball"}}
    content = {"figure": "x", "sweep": {"keys": ["methods.ir.temperature"], "values": [0.2, 0.1]}, "series": series}
    points, figure = made(content, [3, 5])
    assert len(MadeUp.asked) == 2 * 2 * 2
    assert {run["seed"] for run in MadeUp.asked.values()} == {3, 5}
    samplers = {series: type(run["samplers.${sampler}"]) for ((series, _), _), run in MadeUp.asked.items()}
    assert samplers == {"IR": UniformParams, "ball": BallParams}
    expected = [("IR", "0.2", "204.0"), ("IR", "0.1", "104.0"), ("ball", "0.2", "214.0"), ("ball", "0.1", "114.0")]
    assert [tuple(row.values()) for row in figure] == expected
    assert [(row["series"], row["value"], row["nn1_top1_percent"]) for row in points] == expected
    assert {row["seeds"] for row in points} == {"2"}
    assert {point["nn1_top1_std_over_seeds_percent"] for point in points} == {"1.41"}


def test_a_part_without_a_sweep_is_accuracy_over_epochs(made):
    points, figure = made({"figure": "x", "series": {"none": {}, "ball": {"sampler": "ball"}}}, [0])
    assert [tuple(row.values()) for row in figure] == [
        (series, epoch, accuracy) for series in ("none", "ball") for epoch, accuracy in (("1", "10.0"), ("2", "20.0"))
    ]
    assert [(point["series"], point["value"]) for point in points] == [("none", ""), ("ball", "")]
