"""Mixed negatives against vectors mixed one by one, the nearest row as positive, and a temperature that changes."""

import math

import method_cases as cases
import pytest
import torch
import torch.nn.functional as F
from plain_objectives import sets_of
from settings import refusal
from settings import run as small_run

from annulus.errors import InputError
from annulus.methods.contrast import Contrast
from annulus.methods.contrast_config import ContrastConfig, Progress
from annulus.negatives.annealing import CosineTemperature
from annulus.negatives.by_rank import closest
from annulus.negatives.mochi import MoCHi
from annulus.negatives.neighbours import NearestRow
from annulus.negatives.own import own_columns
from annulus.negatives.random_numbers import fractions
from annulus.negatives.scores import Products, StoredScores

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, ROWS, DIM, TEMPERATURE = 6, 41, 5, 0.2


@pytest.fixture
def queries(generator):
    return F.normalize(torch.randn(QUERIES, DIM, generator=generator, dtype=torch.float64), dim=1).requires_grad_()


@pytest.fixture
def rows(generator):
    return F.normalize(torch.randn(ROWS, DIM, generator=generator, dtype=torch.float64), dim=1)


# --- mixed negatives ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "own", [torch.arange(QUERIES), torch.tensor([[1, 7], [2, -1], [-1, -1], [4, 0], [5, 9], [6, 8]])]
)
@pytest.mark.parametrize("progress", [0.5, 1.0])
def test_a_mix_is_a_unit_vector_between_two_of_the_hardest_or_one_and_the_query(own, progress, queries, rows):
    sampler, seeded = MoCHi(outer=0.27, pairs=7, queries=4), torch.Generator().manual_seed(1)
    scores = sampler.synthetic(Products(queries / TEMPERATURE, rows), own, seeded, progress)
    assert scores.shape == (QUERIES, 11)
    drawn = fractions(QUERIES, 3 * 7 + 2 * 4, torch.Generator().manual_seed(1)).tolist()
    count = math.floor((1 - 0.73 * progress) * (ROWS - 1))  # one less than of all rows
    listed = sets_of(closest((queries @ rows.T).detach(), own, 0, count))  # in any order
    plain = []
    for query, numbers in enumerate(drawn):
        mine = own_columns(torch.zeros(QUERIES, ROWS), own)[query].tolist()
        others = [row for row in range(ROWS) if not mine[row]]
        hardest = listed[query]
        assert {*hardest} == {*sorted(others, key=lambda row: -(queries[query] @ rows[row]).item())[:count]}
        places = [rows[hardest[int(part * len(hardest))]] for part in numbers[: 2 * 7 + 4]]
        pairs = zip(places[:7], places[7:14], numbers[18:25], strict=True)
        vectors = [a * first + (1 - a) * second for first, second, a in pairs]
        constant = queries[query].detach()
        vectors += [b / 2 * constant + (1 - b / 2) * row for row, b in zip(places[14:], numbers[25:], strict=True)]
        plain.append(torch.stack([queries[query] @ (each / each.norm()) / TEMPERATURE for each in vectors]))
    torch.testing.assert_close(scores, torch.stack(plain))
    slopes = [torch.autograd.grad(each.sum(), queries)[0] for each in (scores, torch.stack(plain))]
    torch.testing.assert_close(*slopes)


def test_mixes_stand_beside_the_drawn_negatives_and_begin_after_the_warm_up(queries, rows):
    config = ContrastConfig(MoCHi(outer=0.5, pairs=3, queries=2), negatives=10)
    contrast, index = Contrast(config, ROWS, 0, torch.device("cpu")), torch.arange(QUERIES)
    scores = Products(queries / TEMPERATURE, rows)
    for annealing, candidates in ((0.0, 11), (0.1, 16), (1.0, 16)):
        estimate = contrast(scores, index, Progress(0.5, annealing), self_index=index)
        assert estimate.ceiling_nats.item() == pytest.approx(math.log(candidates))


def test_a_sampler_adds_mixes_of_one_kind_alone_or_none(queries, rows):
    scores, random = Products(queries / TEMPERATURE, rows), torch.Generator()
    for pairs, mixed in ((3, 0), (0, 2)):
        added = MoCHi(outer=0.5, pairs=pairs, queries=mixed).synthetic(scores, torch.arange(QUERIES), random, 1.0)
        assert added.shape == (QUERIES, pairs + mixed)
    assert MoCHi(outer=0.5, pairs=0, queries=0).synthetic(scores, torch.arange(QUERIES), random, 1.0) is None


def test_scores_without_vectors_are_refused_and_so_are_methods_without_a_memory():
    index = torch.arange(QUERIES)
    contrast = Contrast(ContrastConfig(MoCHi(outer=0.5, pairs=3, queries=2)), ROWS, 0, torch.device("cpu"))
    with pytest.raises(InputError, match="there are no vectors to mix: take method: ir, pirl, moco"):
        contrast(torch.randn(QUERIES, ROWS, generator=torch.Generator().manual_seed(0)), index, self_index=index)
    for choice in ({"method": "simclr"}, {"method": "simo"}, {"methods.ir.critic": "mlp-1"}):
        assert "sampler: mochi mixes rows of a memory" in refusal({"sampler": "mochi", "anneal": "none"} | choice)


@pytest.mark.parametrize("method", ["ir", "moco", "pirl"])
def test_a_run_with_mixes_learns_by_them(method):
    mixes = {"sampler": "mochi", "samplers.mochi": {"outer": 0.5, "pairs": 5, "queries": 2}, "anneal": "none"}
    training = small_run(mixes | {"method": method, f"methods.{method}.negatives": "sampled"})
    assert training.run()[0]["ceiling_nats"] == pytest.approx(math.log(1 + 12 + 7))


# --- the nearest row ------------------------------------------------------------------------------------


def test_the_row_nearest_to_the_own_one_is_the_positive_and_neither_is_a_negative(queries, rows):
    config, index = ContrastConfig(neighbours=NearestRow(start=0.5)), torch.arange(QUERIES) + 3
    contrast = Contrast(config, ROWS, 0, torch.device("cpu"))
    for training in (0.4, 0.5):
        estimate = contrast(Products(queries / TEMPERATURE, rows), index, Progress(training, 1.0), self_index=index)
        losses = []
        for query, own in enumerate(index.tolist()):
            others = [row for row in range(ROWS) if row != own]
            nearest = max(others, key=lambda row: float(rows[own] @ rows[row]))
            positive = rows[own if training < 0.5 else nearest] @ queries[query] / TEMPERATURE
            if training >= 0.5:  # the denominator has the positive once
                others.remove(nearest)
            negatives = torch.stack([rows[row] @ queries[query] / TEMPERATURE for row in others])
            losses.append(torch.cat([positive[None], negatives]).logsumexp(0) - positive)
        plain = torch.stack(losses).mean()
        assert estimate.loss.item() == pytest.approx(plain.item(), rel=1e-9)
        slopes = [torch.autograd.grad(each, queries)[0] for each in (estimate.loss, plain)]
        torch.testing.assert_close(*slopes)


def test_a_run_takes_the_nearest_row_and_methods_without_rows_of_images_are_refused():
    nearest = {"neighbours": "nearest", "sampler": "uniform", "anneal": "none"}
    history = small_run(nearest | {"bound": "hcl"}).run()
    assert math.isfinite(history[-1]["loss_nats"])
    for choice in ({"method": "moco"}, {"method": "simclr"}, {"methods.ir.critic": "mlp-1"}):
        assert "neighbours: nearest take the place of the query's own row" in refusal(nearest | choice)
    assert "takes neighbours among the negatives, but NearestRow replaces" in refusal(nearest | {"bound": "la"})
    method = cases.method_of(cases.PARAMS["moco"], cases.config_of(neighbours=NearestRow(start=0.0)))
    with pytest.raises(
        InputError, match="nearest replace the row of an image, and here a key is the positive; take IR"
    ):
        method.loss(cases.VIEWS[cases.Given], cases.INDEX)


# --- the temperature ------------------------------------------------------------------------------------


def test_the_temperature_is_the_authors_cosine():
    """tau = low + (high - low)/2 (1 + cos(pi epoch / t_max)): 0.1 to 1, t_max 200 of 2,000 epochs."""
    annealing = CosineTemperature(highest=10.0, periods=5.0)
    for epoch in range(2000):
        tau = 0.1 + 0.5 * (1.0 - 0.1) * (1 + math.cos(math.pi * epoch / 200))
        assert 0.1 * annealing.temperature(epoch / 2000) == pytest.approx(tau, rel=1e-12)
    assert annealing.begin().progress(0.0) == 1.0
    with pytest.raises(InputError, match=r"highest 0\.5: give a number from 1 to 1,000"):
        CosineTemperature(highest=0.5, periods=5.0)


@pytest.mark.parametrize(("name", "multiple"), [*((name, 3.0) for name in cases.PARAMS), ("moco", 0.5)])
def test_a_multiple_of_the_temperature_is_another_temperature_of_each_method(name, multiple):
    params, changed = cases.PARAMS[name], {"temperature": multiple * cases.TEMPERATURE}
    once, other = (
        cases.method_of(one, cases.config_of("ring")) for one in (params, type(params)(**vars(params) | changed))
    )
    views, index = cases.VIEWS[cases.Given], cases.INDEX
    estimate = once.loss(views, index, Progress(0.5, 1.0, temperature=multiple)).estimate
    expected = other.loss(views, index, Progress(0.5, 1.0)).estimate
    assert estimate.loss.item() == pytest.approx(expected.loss.item(), rel=1e-9)
    slopes = [
        torch.autograd.grad(each.loss, one.encoder.weight)[0] for each, one in ((estimate, once), (expected, other))
    ]
    torch.testing.assert_close(*slopes)


def test_a_run_changes_its_temperature_at_each_step():
    seen = []
    training = small_run(
        {"sampler": "ring", "anneal": "temperature", "anneals.temperature": {"highest": 4.0, "periods": 1.0}}
    )
    loss = training.method.loss
    training.method.loss = lambda views, index, progress: seen.append(progress) or loss(views, index, progress)
    training.run()
    shares = [step / len(seen) for step in range(len(seen))]
    assert [each.temperature for each in seen] == pytest.approx(
        [1 + 1.5 * (1 + math.cos(2 * math.pi * s)) for s in shares]
    )
    assert {each.annealing for each in seen} == {1.0}


def test_stored_scores_are_divided_too(generator):
    scores = torch.randn(3, 4, generator=generator)
    assert torch.equal(StoredScores(scores).divided(2.0).table, scores / 2)
