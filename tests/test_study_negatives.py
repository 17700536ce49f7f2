"""The parts of the study `negatives`: from outcomes over a grid to its tables."""

import json
import re
import statistics
from argparse import Namespace
from collections.abc import Mapping
from typing import ClassVar

import pytest
import torch
import yaml
from by_path import ROOT, read_yaml, script
from checkout import rows_of
from stated import TREE, stated_params
from test_studies_outcomes import outcome

from annulus.errors import InputError
from annulus.negatives.samplers import Ball, Uniform
from annulus.running.checkpoint import Checkpoint, clear
from annulus_lab.config.resolved import RUN, resolved
from annulus_lab.studies.shared.grid import part_settings
from annulus_lab.studies.shared.rows_params import row_at
from annulus_lab.studies.shared.runs import Trial, build_trial
from annulus_lab.studies.shared.study import Study

part = script("stages/study_part.py")
settings = script("stages/negatives/settings.py")
estimates = script("stages/negatives/estimates.py")
TEMPERATURES = {"keys": ["methods.ir.temperature"], "values": [0.2, 0.1]}
CONTENT = read_yaml(ROOT / "stages/negatives/params.yaml")


def right_count(trial: Trial) -> float:
    ball = isinstance(trial.run.sampler, Ball)
    return 1000 * trial.run.method.temperature + trial.run.seed + 100 * ball


class MadeUp:
    """Trials whose parameters set the number of right test images of 1,000; keeps the variants of the last run."""

    asked: dict[object, Trial]

    def __init__(self, splits: object) -> None: ...

    def run(self, variants: Mapping) -> dict:
        MadeUp.asked = dict(variants)
        return {key: outcome([image < right_count(run) for image in range(1000)]) for key, run in variants.items()}


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Function that runs a part with made-up trials and returns its tables."""
    monkeypatch.setattr(part, "Trials", MadeUp)
    monkeypatch.setattr(part, "load_splits", lambda folder: None)

    def run(content: dict, seeds: list[int]) -> tuple[list[dict], list[dict]]:
        path = tmp_path / "study.yaml"
        own = CONTENT | {"scale": "tiny", "seeds": seeds, "parts": {"temperature": content}}
        path.write_text(yaml.safe_dump(own, sort_keys=False))
        arguments = Namespace(images=tmp_path, points=tmp_path / "points.csv", figure=tmp_path / "figure.csv")
        resolved = json.loads(json.dumps(settings.main(Study(stated_params(tmp_path / "root.yaml"), path))))
        results = part.main(resolved["parts/temperature"], arguments)
        assert results.metrics == {}
        return rows_of(arguments.points), rows_of(arguments.figure)

    return run


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"estimates": {"counts": [4, 16, 4]}}, "estimates.counts: 4 stands twice; delete one of them"),
        (
            {"defaults": {"method": "moco"}},
            "method 'moco' with split 'none': the estimates score views against the one",
        ),
        ({"defaults": {"split": "lab"}}, "method 'ir' with split 'lab': the estimates score views against the one"),
    ],
)
def test_estimates_that_cannot_be_made_are_refused_before_any_training(tmp_path, changes, sentence):
    own = {name: CONTENT[name] | values for name, values in changes.items()}
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(CONTENT | {"scale": "tiny"} | own, sort_keys=False))
    with pytest.raises(InputError, match=re.escape(sentence)):
        settings.main(Study(stated_params(tmp_path / "root.yaml"), path))


def test_a_part_runs_its_whole_grid_with_every_seed(made):
    """The sweep's value also counts if a series sets the whole section of its key."""
    section = TREE["methods"]["ir"]
    series = {"IR": {"methods.ir": section | {"bank_rate": 0.25}}, "ball": {"sampler": "ball"}}
    points, figure = made({"figure": "x", "base": {"series": "IR"}, "sweep": TEMPERATURES, "series": series}, [3, 5])
    assert len(MadeUp.asked) == 2 * 2 * 2
    assert {trial.run.seed for trial in MadeUp.asked.values()} == {3, 5}
    samplers = {series: type(trial.run.sampler) for ((series, _), _), trial in MadeUp.asked.items()}
    assert samplers == {"IR": Uniform, "ball": Ball}
    expected = [("IR", "0.2", "20.4"), ("IR", "0.1", "10.4"), ("ball", "0.2", "30.4"), ("ball", "0.1", "20.4")]
    assert [(row["series"], row["x"], row["nn1_top1_percent"]) for row in figure] == expected
    assert [(row["series"], row["value"], row["nn1_top1_percent"]) for row in points] == expected
    assert {row["seeds"] for row in points} == {"2"}
    assert [row["nn1_gain_percent"] for row in points] == ["0.0", "0.0", "10.0", "10.0"]
    assert [row["nn1_verdict"] for row in points] == ["base", "base", "better", "better"]
    assert all(float(row["nn1_top1_interval_percent"]) > 0 for row in [*points, *figure])


def test_the_base_may_be_one_value_of_the_same_series(made):
    series = {"IR": {}, "ball": {"sampler": "ball"}}
    points, _ = made({"figure": "x", "base": {"value": 0.1}, "sweep": TEMPERATURES, "series": series}, [0, 1])
    assert [row["nn1_verdict"] for row in points] == ["better", "base", "better", "base"]


def test_a_series_that_does_not_read_the_swept_key_is_one_run(made):
    sweep = {"keys": ["anneals.step.until"], "values": [0.1, 0.5]}
    series = {"ball": {"sampler": "ball", "anneal": "step"}, "IR": {}}
    points, _ = made({"figure": "x", "base": {"series": "IR"}, "sweep": sweep, "series": series}, [0, 1])
    runs = [MadeUp.asked[("IR", value), 0] for value in (0.1, 0.5)]
    assert runs[0] == runs[1]  # trains once
    assert [(row["series"], row["value"], row["nn1_verdict"]) for row in points] == [
        *(("ball", "0.1", "better"), ("ball", "0.5", "better"), ("IR", "0.1", "base"), ("IR", "0.5", "base"))
    ]


class Learned:
    """A training that is killed with seed 1 once, after it has saved its state."""

    killed = False
    found: ClassVar[list] = []  # seed and loaded state of each call of `run`

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def run(self, checkpoint: Checkpoint) -> None:
        Learned.found.append((self.seed, checkpoint.load()))
        checkpoint.save({"seed": self.seed})
        if self.seed == 1 and not Learned.killed:
            Learned.killed = True
            raise KeyboardInterrupt


def test_estimates_go_on_where_their_trainings_stood(tmp_path, monkeypatch, empty_checkout):
    trials = Namespace(splits=Namespace(hashes={}), code=Namespace(hashes=lambda trial: {}), device=torch.device("cpu"))
    trials.training = lambda trial: Learned(trial.run.seed)
    monkeypatch.setattr(estimates, "Trials", lambda splits: trials)
    monkeypatch.setattr(estimates, "load_splits", lambda folder: None)
    monkeypatch.setattr(estimates, "score", lambda training, queries, seed: (torch.eye(4, 50), torch.arange(4)))
    study = Study(stated_params(tmp_path / "root.yaml"), ROOT / "stages/negatives/params.yaml", "tiny")
    chosen = json.loads(json.dumps(settings.main(study)))["estimates"] | {"seeds": [0, 1], "counts": [4], "repeats": 2}
    paths = Namespace(images=tmp_path, points=tmp_path / "points.csv")
    with pytest.raises(KeyboardInterrupt):
        estimates.main(chosen, paths)
    estimates.main(chosen, paths).written()
    assert Learned.found == [(0, None), (1, None), (0, {"seed": 0}), (1, {"seed": 1})]
    for row in rows_of(paths.points):
        seeds = [float(row[f"bias_seed{seed}_nats"]) for seed in (0, 1)]
        assert float(row["bias_nats"]) == pytest.approx(statistics.fmean(seeds), abs=1e-4)
    clear()
    assert not list(empty_checkout.glob(".annulus/checkpoints/*/*"))


@pytest.mark.parametrize("base", [{"series": "IRR"}, {"value": 3.0}, {}])
def test_a_base_that_is_no_point_of_its_part_is_refused(made, base):
    content = {"figure": "x", "base": base, "sweep": TEMPERATURES}
    fault = (
        r"parts\.temperature\.base: \{.*\} is not a point of this part; expected one of its series \(IR\), one of its"
    )
    with pytest.raises(InputError, match=fault):
        made(content | {"series": {"IR": {}}}, [0])


def test_a_part_without_a_sweep_is_accuracy_over_epochs(made):
    series = {"none": {}, "ball": {"sampler": "ball"}}
    points, figure = made({"figure": "x", "base": {"series": "none"}, "series": series}, [0])
    epochs = [("1", "10.0", "", "10.0", "tiny"), ("2", "20.0", "", "20.0", "tiny")]  # one seed has no interval
    assert [tuple(row.values()) for row in figure] == [(name, *epoch) for name in series for epoch in epochs]
    assert [(point["series"], point["value"]) for point in points] == [("none", ""), ("ball", "")]


def test_the_rate_of_linear_scaling_is_in_proportion_to_the_batch_and_no_more(tmp_path):
    """A setting is per 256 images, so that the batch alone changes."""
    study = Study(stated_params(tmp_path / "params.yaml"), ROOT / "stages/cifar10_negatives/params.yaml")
    runs = [build_trial(point["run"], 0).run for point in part_settings(study, "linear-scaling")["points"]]
    assert [run.budget.batch_size for run in runs] == [32, 64, 128]
    per_query = [run.learning_rate / run.budget.batch_size for run in runs]
    assert per_query == pytest.approx([per_query[0]] * 3)


def test_at_the_papers_scale_the_curriculum_by_length_trains_as_the_rows_of_algorithms_at_200_500_and_1000_epochs(
    tmp_path,
):
    """mlcpc Table 3, Appendix C.4. At demo scale the rate and the warm-up are for short runs."""
    root = stated_params(tmp_path / "root.yaml")
    study = Study(root, ROOT / "stages/cifar10_negatives/params.yaml", "paper")
    rows = Study(root, ROOT / "stages/algorithms/params.yaml", "paper")
    points = part_settings(study, "curriculum-length")["points"]
    series_rows = {"CPC": "CPC (MoCo-v2)", "alpha from 10 to 0.1": "ML-CPC-10"}
    assert [(point["series"], point["value"]) for point in points] == [
        (series, epochs) for series in series_rows for epochs in (200, 500, 1000)
    ]
    for point in points:
        row = series_rows[point["series"]]
        run = resolved(rows.variant(row, row_at("paper", rows.row("rows", row)), 0), RUN)
        budget = run["scales"]["paper"]["pretrain"] | {"epochs": point["value"]}
        assert point["run"]["scales"]["paper"]["pretrain"] == budget
        for section in ("methods", "bounds", "samplers", "view_sets", "schedules", "backbones", "optimizer"):
            assert point["run"][section] == run[section], section
