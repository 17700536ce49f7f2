"""Draws by weight against their stated probabilities, with the own columns of a bank, a queue and a batch."""

import inspect
import math
from contextlib import nullcontext

import pytest
import torch
from pretended_gpu import PretendedGPU

from annulus.device.checks import Checks
from annulus.errors import InputError
from annulus.negatives import by_weight, draw_weighted

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, COLUMNS, DRAWN = 5, 37, 20_000
BANK = torch.tensor([3, 0, 36, 17, 8])
QUEUE = torch.tensor([[3, 9], [-1, -1], [36, -1], [-1, 17], [0, 1]])


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def weights(generator):
    """Random weights: every fifth is 0, one is most of row 2, and row 0 is tiny, as exponentials may be."""
    drawn = torch.rand(QUERIES, COLUMNS, generator=generator)
    drawn[:, ::5] = 0.0
    drawn[2, 11] = 30.0
    drawn[0] *= 1e-30
    return drawn


@pytest.mark.parametrize("own", [BANK, QUEUE, None], ids=["bank", "queue", "batch"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_column_is_drawn_as_often_as_its_weight_says_and_an_own_one_never(weights, own, dtype):
    weights = weights.to(dtype)
    drawn = draw_weighted(weights, own, DRAWN, seeded())
    assert drawn.index.shape == (QUERIES, DRAWN)
    assert drawn.mask is None
    for query in range(QUERIES):
        mine = [] if own is None else [row for row in own.view(QUERIES, -1)[query].tolist() if row >= 0]
        plain = [0.0 if row in mine else float(weights[query, row]) for row in range(COLUMNS)]
        counts = drawn.index[query].bincount(minlength=COLUMNS).tolist()
        statistic, members = 0.0, [row for row in range(COLUMNS) if plain[row] > 0]
        assert all(counts[row] == 0 for row in range(COLUMNS) if row not in members)
        for row in members:
            expected = DRAWN * plain[row] / math.fsum(plain)
            statistic += (counts[row] - expected) ** 2 / expected
        assert abs(statistic - (len(members) - 1)) < 5 * math.sqrt(2 * len(members))
    assert torch.equal(draw_weighted(weights, own, DRAWN, seeded()).index, drawn.index)
    assert not torch.equal(draw_weighted(weights, own, DRAWN, seeded(2)).index, drawn.index)


def test_of_a_thousand_equal_weights_each_column_is_drawn_as_often_as_another():
    """The sum of their integers is the largest for this number of columns and must fit into 63 bits."""
    columns = 1000
    counts = draw_weighted(torch.ones(1, columns), None, DRAWN, seeded()).index[0].bincount(minlength=columns)
    expected = DRAWN / columns
    statistic = ((counts - expected) ** 2 / expected).sum().item()
    assert abs(statistic - (columns - 1)) < 5 * math.sqrt(2 * columns)


def test_scale_does_not_matter_and_huge_weights_overflow_nothing(weights):
    drawn = draw_weighted(weights, BANK, 50, seeded()).index
    for scale in (2.0**-20, 2.0**100):
        assert torch.equal(draw_weighted(weights * scale, BANK, 50, seeded()).index, drawn)


def test_weights_of_half_and_of_double_precision_are_drawn_by_as_exactly_as_they_are_given(weights):
    weights[0] *= 1e30
    drawn = draw_weighted(weights.half().float(), BANK, DRAWN, seeded()).index
    assert torch.equal(draw_weighted(weights.half(), BANK, DRAWN, seeded()).index, drawn)
    assert torch.equal(draw_weighted(weights.half().double() * 2.0**200, BANK, DRAWN, seeded()).index, drawn)


def test_light_columns_behind_a_heavy_one_are_drawn_each_and_not_one_for_several():
    """In float32 every four light columns would have equal cumulative sums."""
    weights = torch.full((1, 2**20), 2.0**-25)
    weights[0, 0] = 1.0
    light = draw_weighted(weights, None, DRAWN, seeded()).index
    light = light[light > 0]
    assert len(light) == pytest.approx(DRAWN / 33, rel=0.2)  # the light ones weigh 1/32 together
    assert (light % 4).bincount(minlength=4).min() > len(light) / 8


@pytest.mark.parametrize("fraction", [0.0, 1 - 2.0**-53])
def test_the_least_and_the_largest_fraction_draw_columns_that_have_a_weight(monkeypatch, generator, fraction):
    """float64 has fewer digits than the cumulative sums. The largest fraction is 1 - 2**-53."""
    monkeypatch.setattr(
        by_weight, "fractions", lambda queries, k, _: torch.full((queries, k), fraction, dtype=torch.float64)
    )
    weights = torch.rand(500, 9, generator=generator, dtype=torch.float64)
    weights[:, [0, -1]] = 0.0
    drawn = draw_weighted(weights, None, 1, seeded()).index
    assert set(drawn.flatten().tolist()) == {7 if fraction else 1}


def test_columns_drawn_by_wrong_weights_exist_where_the_refusal_comes_later(weights):
    checks = Checks()
    with PretendedGPU() as gpu:
        random = torch.Generator(gpu.device).manual_seed(1)
        for wrong in (0 * weights[:, 1:], -weights, weights / 0, weights * torch.nan):
            with checks.put_off():
                drawn = draw_weighted(wrong.to(gpu.device), None, 50, random).index.cpu()
            assert 0 <= drawn.min() <= drawn.max() < wrong.shape[1]
            with pytest.raises(InputError, match=r"weights of 5 queries|NaN"):
                checks.look()


def test_one_column_with_a_weight_is_all_that_is_drawn_be_it_the_last():
    weights = torch.zeros(2, COLUMNS)
    weights[0, -1], weights[1, 0] = 1e-38, 1e38
    assert draw_weighted(weights, None, 9, seeded()).index.tolist() == [[COLUMNS - 1] * 9, [0] * 9]


def test_nothing_waits_for_a_gpu(weights):
    expected = draw_weighted(weights, BANK, 5, seeded()).index
    with PretendedGPU() as gpu:
        there, own = weights.to(gpu.device), BANK.to(gpu.device)
        checks = Checks()
        for way in (nullcontext, checks.put_off):  # in a user's own loop, then in the library's
            random = torch.Generator(gpu.device).manual_seed(1)
            with gpu.counting() as counts, way():
                drawn = draw_weighted(there, own, 5, random)
            assert not counts.waits, counts.table()
            assert torch.equal(drawn.index.cpu(), expected)
        with checks.put_off():
            draw_weighted(0 * there, own, 5, random)
        with pytest.raises(InputError, match="weights of 5 queries"):
            checks.look()


@pytest.mark.parametrize(
    ("weights", "k", "match"),
    [
        ([1.0], 3, "weights are list; give floating-point numbers"),
        (torch.ones(2, 4, dtype=torch.int64), 3, r"weights are torch.int64 of 2 axes"),
        (torch.ones(4), 3, r"weights are torch.float32 of 1 axes"),
        (torch.ones(2, 4), "all", "a sampler that draws by weight has no set; give a number"),
        (torch.ones(2, 4), 0, "0 negatives: give a whole number"),
        (torch.eye(2, 4), 3, "weights of 2 queries are negative or not finite, or 0 for all of the other columns"),
        (torch.tensor([[0.0, 1, -1e-9], [1, 1, 1]]), 3, "weights of 1 queries are negative"),
        (torch.tensor([[0.0, 1, torch.inf], [1, 1, 1]]), 3, "weights of 1 queries are negative or not finite"),
        (torch.tensor([[0.0, 1, torch.nan], [1, 1, 1]]), 3, "NaN"),
    ],
)
def test_what_is_no_table_of_weights_is_refused(weights, k, match):
    with pytest.raises(InputError, match=match):
        inspect.unwrap(draw_weighted)(weights, torch.tensor([0, 1]), k, seeded())  # the wrapper checks types
