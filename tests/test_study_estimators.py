"""The study `estimators`: its tables at tiny settings, refusals of its params.yaml, and a whole run by DVC."""

import functools
import json
import logging
import math
import statistics
from argparse import Namespace
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
import torch._dynamo  # noqa: F401  an optimiser's first step imports it, for seconds: here once, not in every worker
import yaml
from by_path import ROOT, read_yaml, script
from checkout import Checkout, ran, rows_of

from annulus.device.rng import derive, first_weights, generator
from annulus.errors import InputError
from annulus.negatives.samplers import Ball, Uniform
from annulus.running.checkpoint import clear
from annulus_lab.config.params import filled, kinds
from annulus_lab.pipeline.stage import Results
from annulus_lab.studies.estimators import conditional as conditional_module
from annulus_lab.studies.estimators import gaussians as gaussians_module
from annulus_lab.studies.estimators import staircase as staircase_module
from annulus_lab.studies.estimators import theorems as theorems_module
from annulus_lab.studies.estimators.critics import Joint, Separable
from annulus_lab.studies.estimators.estimators_params import (
    ConditionalParams,
    GaussiansParams,
    StaircaseParams,
    TheoremsParams,
    first_seeds,
)
from annulus_lab.studies.estimators.toys import CorrelatedGaussians
from annulus_lab.studies.shared.study import OwnStudy

settings = script("stages/estimators/settings.py")
names = ("gaussians", "binary", "staircases/separable", "staircases/joint", "conditional", "ideal", "theorems")
STAGES = {name: script(f"stages/{settings.READERS[name.partition('/')[0]]}.py") for name in names}

MODELS = {name: kinds(settings.EstimatorsParams)[name] for name in settings.SECTIONS}
MODELS |= dict.fromkeys(("staircases.separable", "staircases.joint"), StaircaseParams)
CONTENT = read_yaml(ROOT / "stages/estimators/params.yaml")
VARIANTS = {name: CONTENT["conditional"]["variants"][name] for name in ("cosine", "product-warm", "distance")}
TINY = {
    "gaussians": {
        "pairs": [8, 16],
        "information": [2.0, 6.0],
        "hidden": 16,
        "steps": 10,
        "evaluations": 5,
        "first_seeds": 2,
    },
    "binary": {"candidates": [2, 3, 8], "simulations": 10},
    "staircases": {
        "separable": {"steps_per_level": 12, "points": 2, "pairs": 16, "hidden": 16},
        "joint": {"steps_per_level": 8, "points": 4, "pairs": 8, "hidden": 8},
    },
    "conditional": {"points": 50, "batch_size": 25, "epochs": 1, "percents": [100, 50, 10], "draws": 1, "negatives": 9},
    "ideal": {"information": [1.0, 4.0], "pairs": 16, "repeats": 8, "negatives": 12},
    "theorems": {"repeats": 8, "memory": 300, "queries": 10},
}
for staircase_params in TINY["staircases"].values():
    staircase_params |= {"information": [2.0, 4.0], "alphas": [1.0, 0.01], "first_seeds": 1}


pytestmark = pytest.mark.usefixtures("empty_checkout")


def write_study(content: dict) -> OwnStudy:
    path = Path("study.yaml")
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return OwnStudy(path)


def study(seeds: list[int], **changes) -> OwnStudy:
    """The study at settings that take a moment, with `changes` over those of a section."""
    sections = TINY | {"conditional": TINY["conditional"] | {"seeds": seeds}}
    sections |= {name: sections[name] | those for name, those in changes.items()}
    few = {"conditional": CONTENT["conditional"] | {"variants": VARIANTS}}
    return write_study(CONTENT | few | {"seeds": seeds, "scale": "tiny", "scales": {"tiny": sections}})


def run(stage: str, study: OwnStudy) -> tuple[Results, dict[str, list[dict]], bytes]:
    """Runs a stage and returns its results, its tables by name, and the bytes of all outputs."""
    resolved = json.loads(json.dumps(settings.main(study)))  # as they are in a file
    paths = {name: Path(f"{name}.csv") for name in STAGES[stage].PATHS}
    results = STAGES[stage].main(resolved[stage], Namespace(**paths))
    results.written()
    clear()
    tables, content = {}, json.dumps(dict(results.metrics)).encode()
    for name, path in paths.items():
        if path.exists():
            tables[name] = rows_of(path)
            content += path.read_bytes()
    return results, tables, content


@functools.cache
def once(stage: str) -> tuple[Results, dict[str, list[dict]], bytes]:
    """Cached results of the stage for two seeds, for all tests that only read."""
    return run(stage, study([3, 4]))


def states() -> list[Path]:
    return list(Path(".annulus/checkpoints").glob("*/*/state.pt"))


@pytest.mark.parametrize(
    ("stage", "few", "more"),
    [
        ("gaussians", {"first_seeds": 1}, {"first_seeds": 2}),
        ("gaussians", {"pairs": [8]}, {"pairs": [16, 8]}),
        ("staircases/joint", *({"joint": TINY["staircases"]["joint"] | {"first_seeds": count}} for count in (1, 2))),
        ("conditional", {"variants": {"cosine": VARIANTS["cosine"]}}, {"variants": VARIANTS}),
    ],
)
def test_a_further_piece_changes_none_of_the_others(stage, few, more, monkeypatch):
    calls = []
    monkeypatch.setattr(STAGES[stage].ResumableTasks, "run", lambda _, tasks: calls.append(tasks) or 1 / 0)
    for changes in (few, more):
        with pytest.raises(ZeroDivisionError):
            run(stage, study([3, 4], **{"staircases" if stage == "staircases/joint" else stage: changes}))
    assert calls[0].items() < calls[1].items()


QUICK = ("binary", "ideal", "theorems")  # these compute in this process alone


@pytest.mark.parametrize(
    "stage",
    [
        *QUICK,
        *(pytest.param(name, marks=pytest.mark.slow) for name in ("gaussians", "staircases/separable", "conditional")),
    ],
)
def test_the_same_seeds_give_the_same_bytes_and_others_other_numbers(stage):
    assert run(stage, study([3, 4]))[2] == once(stage)[2] != run(stage, study([6, 7]))[2]
    assert not states(), "what is written is forgotten"


@pytest.mark.parametrize("stage", ["gaussians", "staircases/separable", "conditional"])
def test_a_stage_that_is_stopped_before_it_has_written_keeps_its_pieces(stage, monkeypatch):
    monkeypatch.setattr(STAGES[stage], "write_table", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(stage, study([3, 4]))
    assert states()


KINDS, STEPS = list(product(("CPC", "ML-CPC"), ("1.0", "0.01"))), ("6", "12", "18", "24")


@pytest.mark.parametrize(
    ("stage", "names", "expected"),
    [
        ("gaussians", "information_nats method pairs", product(("2.0", "6.0"), ("InfoNCE", "EqCo"), ("8", "16"))),
        ("binary", "m bound alpha", product("238", ("CPC", "ML-CPC"), ("1.0", "0.5", "0.1", "0.01", "lowest"))),
        ("staircases/separable", "bound alpha iteration", [(*kind, at) for kind in KINDS for at in STEPS]),
        ("staircases/joint", "bound alpha information_nats", [(*kind, at) for kind in KINDS for at in ("2.0", "4.0")]),
        (
            *("conditional", "variant points percent_closest seeds"),
            product(VARIANTS, ("unseen", "trained on"), ("100", "50", "10"), "2"),
        ),
    ],
)
def test_a_table_has_a_row_per_point_in_their_order_below_the_ceilings(stage, names, expected):
    tables = once(stage)[1]
    rows = tables["levels" if "levels" in tables and stage == "staircases/joint" else next(iter(tables))]
    assert [tuple(row[name] for name in names.split()) for row in rows] == list(expected)
    for row in rows:
        assert row.get("scale", "tiny") == "tiny"
        if "ceiling_nats" in row:
            assert float(row["estimate_nats"]) <= float(row["ceiling_nats"])
    if "estimate_nats" in rows[0]:
        assert len({row["estimate_nats"] for row in rows}) > len(rows) / 2


def test_eqco_s_ceiling_does_not_depend_on_the_pairs_and_no_estimate_exceeds_its_own():
    for row in once("gaussians")[1]["points"]:
        ceiling = math.log(513) if row["method"] == "EqCo" else math.log(int(row["pairs"]))
        assert float(row["ceiling_nats"]) == pytest.approx(ceiling, abs=1e-4)
    for row in once("ideal")[1]["points"]:
        assert row["ceiling_nats"] == "" or float(row["estimate_nats"]) <= float(row["ceiling_nats"])
        assert float(row["error_nats"]) == pytest.approx(float(row["std_nats"]) / 8**0.5, abs=2e-4)


def test_one_seed_has_no_spread_and_margins_and_alphas_without_a_proven_bound_are_told(caplog):
    rows = run("gaussians", study([3], gaussians={"first_seeds": 1, "eqco_alpha": 12.0}))[1]["points"]
    assert {(row["std_over_seeds_nats"], row["seeds"]) for row in rows} == {("", "1")}
    assert [line for line in caplog.messages if "eqco_alpha 12 is more than the 7 negatives" in line]
    assert not [line for line in caplog.messages if "the 15 negatives" in line]
    with caplog.at_level(logging.WARNING, logger="annulus"):
        run("staircases/joint", study([3]))
    assert "mlcpc with alpha 0.01 is not a lower bound" in caplog.text
    assert "not log m = 2.08" in caplog.text, "log 8: each pair meets those of the other seven"


def test_the_spread_over_seeds_is_that_of_a_sample():
    params = GaussiansParams(**CONTENT["gaussians"])
    row = gaussians_module.row(params, "InfoNCE", 2.0, 8, {3: 1.0, 4: 3.0})
    assert row["std_over_seeds_nats"] == pytest.approx(2**0.5)
    assert (row["estimate_seed3_nats"], row["estimate_seed4_nats"]) == (1.0, 3.0)


def plain_eqco(scores: torch.Tensor, alpha: float) -> torch.Tensor:
    """log(1 + alpha) minus the loss of eqco eq. 10 with K - 1 negatives; InfoNCE at alpha = K - 1."""
    own, sums = scores.diagonal().exp(), scores.exp().sum(dim=1)
    return math.log(1 + alpha) + (own / (own + alpha / (len(scores) - 1) * (sums - own))).log().mean()


def plain_mlcpc(bound: str, scores: torch.Tensor, alpha: float) -> torch.Tensor:
    """mlcpc eq. 4 or 6, of six pairs."""
    weights = torch.full((6, 6), (6 - alpha) / 5) + (alpha - (6 - alpha) / 5) * torch.eye(6)
    sums = (weights * scores.exp()).sum(dim=1)
    return (6 * scores.diagonal().exp() / (sums.sum() / 6 if bound == "ML-CPC" else sums)).log().mean()


def alone(make, value, toys, rate, draws) -> tuple[torch.nn.Module, list[float]]:
    """Trains a critic by itself on six pairs of each toy in turn; returns it and its estimates."""
    with first_weights(derive(3, "weights")):
        critic, values = make(), []
    optimizer = torch.optim.Adam(critic.parameters(), rate)
    for toy in toys:
        estimate = value(critic(*toy.sample(6, draws)))
        optimizer.zero_grad()
        (-estimate).backward()
        optimizer.step()
        values.append(estimate.item())
    return critic, values


def test_gaussians_estimates_are_those_of_critics_trained_one_after_the_other(in_float64):
    """Both bounds share first weights and pairs. Estimates are means over batches after training."""
    own = CONTENT["gaussians"] | {"hidden": 8, "outputs": 4, "steps": 5, "evaluations": 3, "learning_rate": 0.01}
    params = GaussiansParams(**(own | {"information": [2.0, 6.0], "pairs": [6]}))
    nats = gaussians_module.estimates(params, (6, 3))["nats"]
    for (method, alpha), level in product((("InfoNCE", 5.0), ("EqCo", 512.0)), (0, 1)):
        toy, draws = CorrelatedGaussians.with_information(20, params.information[level]), generator(3, "pairs", level)
        critic, _ = alone(
            lambda: Separable(20, 8, 1, 4), lambda each, alpha=alpha: plain_eqco(each, alpha), [toy] * 5, 0.01, draws
        )
        expected = statistics.fmean(plain_eqco(critic(*toy.sample(6, draws)), alpha).item() for _ in range(3))
        assert nats[method][level] == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("critic", ["separable", "joint"])
@pytest.mark.parametrize("bound", ["CPC", "ML-CPC"])
def test_a_staircase_s_estimates_are_those_of_critics_trained_one_after_the_other(bound, critic, in_float64):
    """Every alpha starts with the same weights and sees the same pairs. The level rises after four steps."""
    own = CONTENT["staircases"][critic] | {"hidden": 8, "pairs": 6, "steps_per_level": 4, "points": 1, "dims": 4}
    own |= {"alphas": [1.0, 0.05], "information": [2.0, 6.0], "outputs": 3 if critic == "separable" else None}
    params = StaircaseParams(**own)
    estimates = staircase_module.follow(params, (bound, 3))["nats"]
    assert estimates.shape == (2, 8)
    toys = [CorrelatedGaussians.with_information(4, nats) for nats in (2.0, 6.0) for _ in range(4)]
    for nats, alpha in zip(estimates, params.alphas, strict=True):
        _, expected = alone(
            lambda: Joint(4, 8, 2) if critic == "joint" else Separable(4, 8, 2, 3),
            lambda each, alpha=alpha: plain_mlcpc(bound, each, alpha),
            *(toys, 1e-3, generator(3, "pairs")),
        )
        assert nats.tolist() == pytest.approx(expected, abs=1e-7)


def test_what_is_simulated_is_what_is_computed():
    """Both have the same critic, so they agree within the error of a mean over the simulated batches."""
    simulations = 100
    rows = run("binary", study([3], binary={"simulations": simulations, "candidates": [8], "p": 0.3}))[1]["points"]
    entropy = -0.3 * math.log(0.3) - 0.7 * math.log(0.7)
    for row in rows:
        assert float(row["bias_nats"]) == pytest.approx(float(row["value_nats"]) - entropy, abs=2e-4)
        error = (float(row["variance"]) / simulations) ** 0.5
        assert float(row["simulated_nats"]) == pytest.approx(float(row["value_nats"]), abs=4.5 * error + 2e-4), row
        assert float(row["simulated_variance"]) == pytest.approx(float(row["variance"]), rel=0.6, abs=1e-3)


def test_a_point_is_the_mean_over_its_steps_and_a_level_s_end_that_over_its_last_quarter():
    own = CONTENT["staircases"]["separable"] | {"steps_per_level": 8, "points": 4, "information": [2.0, 4.0]}
    params = StaircaseParams(**own)
    nats = torch.tensor([0.0, 1, 2, 3, 4, 5, 6, 8, 10, 10, 20, 20, 30, 30, 40, 44])
    points = staircase_module.curve(params, "CPC", 0.5, {3: nats - 1, 4: nats + 1})
    assert [row["estimate_nats"] for row in points] == [0.5, 2.5, 4.5, 7.0, 10.0, 20.0, 30.0, 42.0]
    assert [row["iteration"] for row in points] == [2, 4, 6, 8, 10, 12, 14, 16]
    assert [row["information_nats"] for row in points] == [2.0] * 4 + [4.0] * 4
    ends = staircase_module.ends(params, "ML-CPC", 0.5, {3: nats, 4: 3 * nats})
    assert [(row["estimate_nats"], row["std_nats"]) for row in ends] == [(14.0, 2.0), (84.0, 4.0)]
    over_seeds = [row[f"{name}_std_over_seeds_nats"] for row in ends for name in ("estimate", "std")]
    assert over_seeds == pytest.approx([98**0.5, 2**0.5, 84 / 2**0.5, 8**0.5])
    assert [row["estimate_seed4_nats"] for row in ends] == [21.0, 126.0]
    assert [row["std_seed3_nats"] for row in ends] == [1.0, 2.0]
    assert {row["ceiling_nats"] for row in ends} == {math.log(256)}
    [alone] = {row["estimate_std_over_seeds_nats"] for row in staircase_module.ends(params, "CPC", 0.5, {3: nats})}
    assert alone == "", "one seed tells nothing of others"


def test_a_row_of_conditional_has_mean_and_interval_over_seeds_of_its_own_share_and_points():
    """Share and seed determine an estimate, and each has its own place."""
    params = filled(ConditionalParams, CONTENT["conditional"] | TINY["conditional"])
    estimates = conditional_module.train_variant(replace(params, seeds=[3, 4]), "cosine")
    alone = conditional_module.train_variant(replace(params, seeds=[4], percents=[50]), "cosine")
    assert estimates["unseen"]["own"][1][1] == pytest.approx(alone["unseen"]["own"][0][0], abs=1e-3)
    assert estimates["unseen"]["own"] != estimates["trained on"]["own"], (
        "the bound holds of points the critic has not seen"
    )

    by_share = [[4.0] * 3, [1.0, 2.0, 6.0], [5.0] * 3]
    nats = {"own": by_share, "uniform": [[0.0000123456, 0.0, 0.0]] * 3}
    params = replace(params, seeds=[3, 4, 5])
    row = conditional_module.rows("cosine-slow-warm", params, {"unseen": nats, "trained on": nats})[4]
    assert (row["points"], row["method"], row["percent_closest"]) == ("trained on", "CNCE", 50)
    assert (row["score"], row["learning_rate"], row["warm_start"]) == ("cosine", 0.003, 0.3)
    assert (row["estimate_nats"], row["std_over_seeds_nats"]) == ("3", f"{7**0.5:.4g}")
    assert row["interval_nats"] == f"{4.302653 * (7 / 3) ** 0.5:.4g}", "Student's t of two degrees of freedom"
    assert row["uniform_nats"] == "4.115e-06", "as small as they are, not rounded to nothing"
    assert (row["estimate_seed4_nats"], row["uniform_seed3_nats"]) == ("2", "1.235e-05")
    assert row["supremum_nats"] == "0.0002013"
    one_seed = {"own": [[4.0]] * 3, "uniform": [[0.0]] * 3}
    row = conditional_module.rows("cosine", replace(params, seeds=[3]), {"unseen": one_seed})[0]
    assert (row["std_over_seeds_nats"], row["interval_nats"]) == ("", "")


def test_with_the_ideal_critic_every_bound_is_where_theory_puts_it():
    changes = {"information": [1.0], "dims": 2, "pairs": 32, "repeats": 100, "negatives": 16, "alpha": 1.5}
    changes |= {"eqco_alpha": 8.0}
    rows = {row["series"]: row for row in run("ideal", study([3], ideal=changes))[1]["points"]}
    nats = {name: float(row["estimate_nats"]) for name, row in rows.items()}
    error = {name: 4 * float(row["error_nats"]) for name, row in rows.items()}
    lowest = next(name for name in rows if name.startswith("ML-CPC"))
    for name in ("InfoNCE", "CPC, alpha 1.5", lowest, "EqCo, alpha 8", "VINCE, ball", "CNCE, ring"):
        assert 0 < nats[name] <= 1 + error[name]
    for name in ("unnormalised BA", "NWJ"):
        assert nats[name] == pytest.approx(1, abs=error[name])
    assert nats["DV"] == pytest.approx(1, abs=error["DV"] + 0.1)
    assert nats["VINCE, ball"] < nats["InfoNCE"]
    # The ring leaves the closest out.
    assert nats["VINCE, ball"] + error["VINCE, ball"] < nats["CNCE, ring"] < nats["InfoNCE"]
    # A mean over 32 pairs of the log ratio, whose variance is rho^2 in each of the two dimensions.
    deviation = (2 * (1 - math.exp(-1)) / 32) ** 0.5
    assert float(rows["unnormalised BA"]["std_nats"]) == pytest.approx(deviation, rel=0.25)


def test_the_theorems_numbers_say_what_the_papers_say():
    numbers = run("theorems", study([3], theorems={"repeats": 8, "memory": 400, "queries": 30}))[0].metrics
    assert numbers["information_nats"] == pytest.approx(-math.log(1 - 0.64))
    # ring Theorem 3.2: bias is the truth minus the estimate, so a lower estimate has more bias.
    assert numbers["thm32_bias_cnce_nats"] > numbers["thm32_bias_nce_nats"] > 0
    assert numbers["thm32_variance_cnce"] < 0.8 * numbers["thm32_variance_nce"]
    # A.1: no information, and yet an estimate above 0, though not above the ceiling.
    assert 0.5 < numbers["a1_independent_estimate_nats"] <= numbers["ceiling_nats"]
    # Statement 3.
    assert numbers["ring_condition_nats"] < numbers["ring_nce_nats"] < numbers["ring_exceeding_nats"]
    assert numbers["ring_exceeding_nats"] <= numbers["ceiling_nats"]
    # mlcpc text.gauss1000: "m must exceed 4e8".
    assert numbers["gauss1000_information_nats"] == pytest.approx(20.41, abs=5e-3)
    assert numbers["gauss1000_needed_classes"] > 4e8


def test_variance_is_that_of_one_query_s_estimate_over_its_draws():
    params = filled(TheoremsParams, CONTENT["theorems"] | {"memory": 200, "queries": 3, "repeats": 300, "negatives": 4})
    toy = CorrelatedGaussians(params.dims, params.rho)
    case = theorems_module.build_case(params, toy, toy, 3)
    assert case.scores.shape == (3, 200)
    assert case.self_index.tolist() == list(range(3))
    variances = []
    for query in range(3):
        scores = case.scores[query].double().tolist()
        others = scores[:query] + scores[query + 1 :]
        draws = torch.randint(len(others), (4000, 4), generator=generator(query))
        masses = [math.exp(scores[query]) + sum(math.exp(others[place]) for place in drawn) for drawn in draws.tolist()]
        variances.append(statistics.variance(math.log(mass) for mass in masses))
    expected = pytest.approx(statistics.fmean(variances), rel=0.15)
    assert theorems_module.variance(params, case, Uniform(), "uniform", 3) == expected
    few = replace(params, repeats=5)
    assert theorems_module.variance(few, case, Ball(0.006), "ball", 3) == pytest.approx(0, abs=1e-10), (
        "a set of one row"
    )


def test_every_section_is_valid_at_every_scale():
    for scale in CONTENT["scales"]:
        assert len(settings.main(write_study(CONTENT | {"scale": scale}))) == len(STAGES)


def refusal(name: str, key: str, value: object) -> str:
    """Message of the refusal, without the file and the section."""
    content = yaml.safe_load(yaml.safe_dump(CONTENT)) | {"scale": "paper", "scales": {"paper": {}}}
    section = content
    for part in name.split("."):
        section = section[part]
    section[key] = value
    with pytest.raises(InputError) as error:
        write_study(content).section(name, MODELS[name])
    sentence = str(error.value)
    assert "\n" not in sentence
    assert sentence.startswith(f"study.yaml: {name}: ")
    return sentence.removeprefix(f"study.yaml: {name}: ")


@pytest.mark.parametrize(
    ("name", "key", "value", "sentence"),
    [
        ("gaussians", "pairs", [10**30], f"pairs.0: m = {10**30}: scores are a table of m rows and m columns; take"),
        ("gaussians", "pairs", [64, 1], "pairs.1: m = 1 has no negative beside the positive; a bound needs at least 2"),
        ("binary", "alphas", [1e-300], "alphas.0: alpha = 1e-300 is as good as 0 beside a weight of 1; take at"),
        ("binary", "alphas", [1.0, 0.0], "alphas.1: alpha = 0; it must be above 0 and below m: below 1 cpc is not a"),
        ("binary", "alphas", [1.0, 2.0], "alpha = 2 with m = 2: from m on a negative's weight (m - alpha)/(m - 1) is"),
        ("staircases.separable", "alphas", [128.0], "alpha = 128 with m = 128: from m on a negative's weight"),
        ("staircases.separable", "points", 7, "points: 7 does not divide steps_per_level: 4000; a point of the figure"),
        (
            "staircases.joint",
            "critic",
            "separable",
            "outputs: null with critic: separable; a separable critic has a nu",
        ),
        ("conditional", "percents", [100, 0], "percents: 0 % of 2000 points; a set is more than 0 and at most 100 p"),
        ("conditional", "points", 20, "percents: 5 % of 20 points; a set is more than 0 and at most 100 percent of"),
        (
            *("conditional", "variants", {"mine": {"score": "dot", "learning_rate": 0.01, "warm_start": 0.0}}),
            "variants.mine.score: 'dot' refused; input should be 'cosine', 'product' or 'distance'",
        ),
        ("conditional", "batch_size", 2001, "batch_size: 2001 is more than the 2000 points"),
        ("theorems", "rho", 1.0, "rho: rho = 1; a correlation lies above -1 and below 1, where the information is fin"),
    ],
)
def test_a_bad_value_is_named_with_its_key_and_the_way_out(name, key, value, sentence):
    assert refusal(name, key, value).startswith(sentence)


def test_more_than_the_study_or_its_memory_holds_is_refused():
    with pytest.raises(InputError, match=r"gaussians\.first_seeds: 3 of 2 seeds; name more seeds"):
        run("gaussians", study([3, 4], gaussians={"first_seeds": 3}))
    with pytest.raises(InputError, match=r"staircases\.joint\.first_seeds: 1 of 0 seeds; name more seeds"):
        first_seeds([], 1, "staircases.joint")
    with pytest.raises(InputError, match="queries: 301 of a memory of 300; take at most 300"):
        run("theorems", study([3, 4], theorems={"queries": 301}))


FILES = {f"{name.replace('s/', '-')}.csv" for name in STAGES if name != "theorems"} | {"theorems.json"}
FILES |= {"staircase-separable_levels.csv", "staircase-joint_levels.csv"}


def tiny(content: dict) -> None:
    content |= {"scale": "tiny", "seeds": [0, 1], "scales": content["scales"] | {"tiny": TINY}}
    content["conditional"]["variants"] = VARIANTS


@pytest.mark.slow
def test_the_study_as_a_user_runs_it(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    checkout = Checkout(tmp_path / "annulus", "estimators")
    checkout.cut("estimators", tiny)
    assert set(ran(checkout.dvc("repro", study="estimators"))) == {
        "settings",
        *(name.replace("s/", "@") for name in STAGES),
    }
    assert {path.name for path in (checkout.project("estimators") / "metrics").iterdir()} == FILES
    assert checkout.read("stages/estimators/metrics/theorems.json")["scale"] == "tiny"
    assert not list(checkout.folder.glob(".annulus/checkpoints/*/*"))

    def edit(content: dict) -> None:
        content["scales"]["tiny"]["conditional"]["epochs"] = 3
        content["staircases"]["joint"]["learning_rate"] = 0.5
        content["scales"]["demo"]["ideal"] = {"repeats": 17}  # another scale: reaches nothing

    checkout.edit("params.yaml", "method: ir ", "method: moco ")  # nor do the main line's choices
    assert checkout.changed_by("estimators", edit) == {"conditional", "staircase@joint"}
