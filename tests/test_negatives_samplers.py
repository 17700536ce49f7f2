"""Samplers against sorted() and loops and the law of their draws, over bank, queue and batch."""

import math
from dataclasses import replace

import pytest
import torch
from plain_objectives import plain_negatives, sets_of

from annulus.errors import InputError
from annulus.negatives import ranked as module
from annulus.negatives.clusters import Clustering, Clusters
from annulus.negatives.ranked import select
from annulus.negatives.samplers import Cave, Ring
from annulus.negatives.selection import Selection
from annulus.ranks import kept_shares

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, ROWS = 35, 101  # more queries than one chunk of work; 100 other rows, so that shares are percentages
OUTSIDE = Cave(0.3, "outside", Clustering(clusters=4, iterations=1, runs=2))
INSIDE = replace(OUTSIDE, keep="inside")
SAMPLERS = {
    "uniform": Ring(0.0, 1.0),
    "ball": Ring(0.0, 0.29),  # 0.29 * 100 is 28.999... in floating point
    "ring": Ring(0.07, 0.3),
    "wide ring": Ring(0.07, 1.0),
    "outside": OUTSIDE,
    "inside": INSIDE,
}
each_sampler = pytest.mark.parametrize("sampler", SAMPLERS.values(), ids=SAMPLERS.keys())


@pytest.fixture
def similarity(generator):
    return torch.randn(QUERIES, ROWS, generator=generator)


@pytest.fixture
def own(generator):
    drawn = torch.randint(ROWS, (QUERIES,), generator=generator)
    drawn[:2] = torch.tensor([0, ROWS - 1])  # both ends
    return drawn


@pytest.fixture
def clusters(own, generator):
    of_rows = torch.randint(4, (2, ROWS), generator=generator, dtype=torch.int32)
    return of_bank(of_rows, own)


@pytest.fixture(params=["bank", "queue", "queue without own keys", "other views"])
def memory(request, own, clusters, generator):
    """The queries' own rows, and clusters: in a bank all have one, in a queue none to two, in a batch none.

    A queue's keys of no image are in no cluster; a batch's columns are other ones for each query.
    """
    of_rows, of_queries = clusters.columns, clusters.queries
    match request.param:
        case "bank":
            return own, clusters
        case "queue" | "queue without own keys":
            places = torch.stack([own, (own + 1 + torch.arange(QUERIES) % 7) % ROWS], dim=1)
            if request.param != "queue":
                places.fill_(-1)
            has = torch.rand(QUERIES, 2, generator=generator) < 0.5
            has[:2] = True
            written = torch.rand(ROWS, generator=generator) < 0.8
            return torch.where(has, places, -1), Clusters(of_rows.where(written, -1).int(), of_queries)
    orders = torch.rand(QUERIES, ROWS, generator=generator).argsort(dim=1)
    return None, Clusters(of_rows[:, orders], of_queries)


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def plain_set(similarity, memory, query, sampler, progress="1"):
    """One query's negatives from the papers."""
    own, clusters = memory
    others = ROWS if own is None else ROWS - 1
    return plain_negatives(similarity[query], own_of(own, query), others, sampler, progress, clusters, query)


def own_of(own, query):
    """One query's own rows."""
    return [] if own is None else [row for row in own.view(len(own), -1)[query].tolist() if row >= 0]


def of_bank(of_rows, own):
    return Clusters(of_rows, of_rows[:, own])


# --- the set ------------------------------------------------------------------------------------------


@each_sampler
@pytest.mark.parametrize("progress", ["0", "0.001", "0.3", "0.5", "1"])
def test_all_is_the_plain_set_at_every_stage_of_annealing(sampler, progress, similarity, memory):
    found = sampler.draw(similarity, memory[0], "all", seeded(), float(progress), memory[1])
    for query, rows in enumerate(sets_of(found, similarity.shape)):
        assert len(rows) == len(set(rows)), "a row stands twice"
        assert set(rows) == plain_set(similarity, memory, query, sampler, progress)


@each_sampler
def test_annealing_starts_at_the_whole_memory_in_its_order(sampler, similarity, memory):
    own, clusters = memory
    found = sampler.draw(similarity, own, "all", seeded(), 0.0, clusters)
    assert found.index is None
    for query, rows in enumerate(sets_of(found, similarity.shape)):
        assert rows == [other for other in range(ROWS) if other not in own_of(own, query)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 40), (1, 2), (39, 40), (10, 40), (0, 99), (99, 100), (1, 100)])
def test_selected_ranks_are_exact_up_to_both_ends(first, last, dtype, similarity, memory):
    similarity, own = similarity.to(dtype), memory[0]
    selected = select(similarity, own, first, last)
    for query in range(QUERIES):
        order = sorted(range(ROWS), key=lambda row: -float(similarity[query, row]))
        mine = own_of(own, query)  # these rank last, in any order
        order = [row for row in order if row not in mine] + mine
        assert set(selected[query].tolist()) - set(mine) == set(order[first:last]) - set(mine)
        assert len(set(selected[query].tolist())) == last - first


class OnGPU(torch.Tensor):
    """A tensor that says it is on a GPU, so that the GPU's way of selecting runs here."""

    is_cuda = True


@pytest.mark.parametrize(("first", "last"), [(0, 1), (0, 40), (10, 40), (99, 100), (1, 100)])
@pytest.mark.parametrize("picked", [None, 7])
def test_a_gpu_selects_the_same_ranks(first, last, picked, similarity, memory):
    own = memory[0]
    if own is not None:
        for query in range(QUERIES):
            similarity[query, own_of(own, query)] = 100.0
    here, there = (
        torch.Tensor(select(scores, own, first, last)).long() for scores in (similarity, similarity.as_subclass(OnGPU))
    )
    for query in range(QUERIES):
        mine = set(own_of(own, query))  # these rank last, in any order
        assert set(here[query].tolist()) - mine == set(there[query].tolist()) - mine
    if picked is not None:
        places = torch.randint(last - first, (QUERIES, picked), generator=seeded())
        drawn = torch.Tensor(select(similarity.as_subclass(OnGPU), own, first, last, places)).long()
        assert torch.equal(drawn, there.gather(1, places))


@pytest.mark.parametrize("queries", [1, 15, 16, 17, 35])
def test_every_query_is_selected_whatever_the_batch(queries, similarity, own):
    whole = select(similarity, own, 3, 20)
    assert torch.equal(select(similarity[:queries], own[:queries], 3, 20), whole[:queries])


@pytest.mark.parametrize("block", [1, 3 * ROWS, QUERIES * ROWS])
@pytest.mark.parametrize("picked", [None, 7])
def test_threads_and_blocks_of_any_size_select_the_same_rows(block, picked, similarity, memory, monkeypatch):
    own = memory[0]
    places = None if picked is None else torch.randint(17, (QUERIES, picked), generator=seeded())
    whole = select(similarity, own, 3, 20, places)
    monkeypatch.setattr(module, "BLOCK", block)
    for threaded in (0, QUERIES * ROWS + 1):
        monkeypatch.setattr(module, "THREADED", threaded)
        assert torch.equal(select(similarity, own, 3, 20, places), whole)


def test_few_scores_start_no_threads_and_many_do(similarity, own, monkeypatch):
    monkeypatch.setattr(module, "THREADED", QUERIES * ROWS)
    monkeypatch.setattr(module, "ThreadPoolExecutor", None)
    select(similarity[1:], own[1:], 3, 20)
    with pytest.raises(TypeError):
        select(similarity, own, 3, 20)


def test_selecting_leaves_the_scores_as_they_are(similarity, own):
    before = similarity.clone()
    SAMPLERS["ring"].draw(similarity, own, "all", seeded())
    assert torch.equal(similarity, before)


@pytest.mark.parametrize("levels", [1, 2, 5])
def test_among_equal_scores_ranks_are_still_exact(levels, generator, own):
    """Which of the tied rows are kept is open; how many of each score is not."""
    similarity = torch.randint(levels, (QUERIES, ROWS), generator=generator).float()
    for sampler in (SAMPLERS["ball"], SAMPLERS["ring"]):
        found = sampler.draw(similarity, own, "all", seeded())
        for query, rows in enumerate(sets_of(found, similarity.shape)):
            expected = plain_set(similarity, (own, None), query, sampler)
            assert len(rows) == len(set(rows)) == len(expected)
            assert sorted(similarity[query, rows].tolist()) == sorted(similarity[query, list(expected)].tolist())
            assert own[query] not in rows


# --- the own row --------------------------------------------------------------------------------------


@each_sampler
@pytest.mark.parametrize("k", [2000, "all"])
@pytest.mark.parametrize("standing", ["highest", "lowest", "tied with all", "tied with the highest"])
def test_the_own_row_is_never_a_negative(standing, k, sampler, similarity, own, clusters):
    column = own[:, None]
    match standing:
        case "highest":
            similarity.scatter_(1, column, 100.0)
        case "lowest":
            similarity.scatter_(1, column, -100.0)
        case "tied with all":
            similarity.zero_()
        case "tied with the highest":
            similarity.scatter_(1, column, 100.0).scatter_(1, (column + 1) % ROWS, 100.0)
    for progress in (0.0, 0.5, 1.0):
        found = sampler.draw(similarity, own, k, seeded(), progress, clusters)
        for rows, row in zip(sets_of(found), own.tolist(), strict=True):
            assert row not in rows


@pytest.mark.parametrize("row", [0, 50, ROWS - 1])
def test_uniform_reaches_every_other_row_and_only_those(row, similarity):
    drawn = Ring(0.0, 1.0).draw(similarity[:1], torch.tensor([row]), 5000, seeded()).index
    assert drawn.unique().tolist() == [other for other in range(ROWS) if other != row]


# --- the draws ----------------------------------------------------------------------------------------


@each_sampler
def test_every_draw_lies_in_the_set_and_reaches_all_of_it(sampler, similarity, memory):
    drawn = sampler.draw(similarity, memory[0], 3000, seeded(), 1.0, memory[1])
    assert drawn.index.shape == (QUERIES, 3000)
    assert drawn.mask is None
    for query in range(QUERIES):
        expected = plain_set(similarity, memory, query, sampler)
        assert set(drawn.index[query].tolist()) == expected


@each_sampler
def test_draws_are_uniform_over_the_set(sampler, similarity, memory):
    drawn = sampler.draw(similarity, memory[0], 20_000, seeded(), 1.0, memory[1]).index
    statistic, freedom = 0.0, 0
    for query in range(QUERIES):
        members = sorted(plain_set(similarity, memory, query, sampler))
        counts = drawn[query].bincount(minlength=ROWS)[members].double()
        expected = 20_000 / len(members)
        statistic += float(((counts - expected) ** 2 / expected).sum())
        freedom += len(members) - 1
    assert abs(statistic - freedom) < 4 * math.sqrt(2 * freedom)  # chi-square: mean df, variance 2 df


@each_sampler
def test_draws_are_independent_with_replacement(sampler, similarity, memory):
    """Of k draws from m rows, m * (1 - (1 - 1/m)^k) are different on average; neighbours agree once in m."""
    drawn = sampler.draw(similarity, memory[0], 400, seeded(), 1.0, memory[1]).index
    sizes = [len(plain_set(similarity, memory, q, sampler)) for q in range(QUERIES)]
    different = sum(len(set(rows)) for rows in drawn[:, :20].tolist())
    expected = sum(size * (1 - (1 - 1 / size) ** 20) for size in sizes)
    assert different == pytest.approx(expected, abs=4 * math.sqrt(3 * QUERIES))
    same = (drawn[:, 1:] == drawn[:, :-1]).sum().item()
    chance = sum(399 / size for size in sizes)
    assert same == pytest.approx(chance, abs=4 * math.sqrt(chance))


def test_queries_draw_independently_of_each_other(own):
    ranks = torch.arange(float(ROWS)).expand(2, ROWS)
    drawn = SAMPLERS["ball"].draw(ranks, torch.tensor([0, 0]), 4000, seeded()).index
    same = (drawn[0] == drawn[1]).sum().item()
    assert same == pytest.approx(4000 / 29, abs=4 * math.sqrt(4000 / 29))


@each_sampler
def test_the_seed_repeats_the_draws_and_another_changes_them(sampler, similarity, own, clusters):
    first, again, other = (sampler.draw(similarity, own, 50, seeded(seed), 1.0, clusters).index for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_ring_with_inner_0_is_the_ball_draw_for_draw(similarity, own):
    for progress in (0.3, 1.0):
        ring = Ring(0.0, 0.3).draw(similarity, own, 500, seeded(), progress)
        ball = Ring(0.0, 0.3).draw(similarity, own, 500, seeded(), progress)
        assert torch.equal(ring.index, ball.index)


def test_ball_and_ring_of_the_whole_memory_are_uniform(similarity, own):
    uniform = Ring(0.0, 1.0).draw(similarity, own, 20_000, seeded(1)).index
    for whole in (Ring(0.0, 1.0), Ring(0.0, 1.0)):
        drawn = whole.draw(similarity, own, 20_000, seeded(2)).index
        statistic = 0.0
        for query in range(QUERIES):  # two samples of one law: chi-square with ROWS - 2 degrees of freedom
            a, b = (rows[query].bincount(minlength=ROWS).double() for rows in (uniform, drawn))
            both = (a + b).clamp(min=1)
            statistic += float(((a - b) ** 2 / both).sum())
        freedom = QUERIES * (ROWS - 2)
        assert abs(statistic - freedom) < 4 * math.sqrt(2 * freedom)


def test_both_borders_move_in_a_straight_line():
    ring = Ring(0.1, 0.2)
    expected = {0.0: (0.0, 1.0), 0.25: (0.025, 0.8), 0.5: (0.05, 0.6), 1.0: (0.1, 0.2)}
    for progress, shares in expected.items():
        assert kept_shares(ring.shares, progress) == pytest.approx(shares)
    assert kept_shares(Ring(0.0, 0.2).shares, 0.5) == pytest.approx((0.0, 0.6))
    assert kept_shares(OUTSIDE.shares, 1.0) == pytest.approx((0.0, 0.3))
    assert kept_shares(Ring(0.0, 1.0).shares, 0.5) == (0.0, 1.0)


# --- cave ---------------------------------------------------------------------------------------------


def test_cave_of_several_clusterings_unites_the_own_clusters(similarity, own, clusters):
    """A row of the query's cluster in either run is outside's loss and inside's gain."""

    def first(clusters, runs):
        return Clusters(clusters.columns[:runs], clusters.queries[:runs])

    found = {
        (keep, runs): sets_of(sampler.draw(similarity, own, "all", seeded(), 1.0, first(clusters, runs)))
        for keep, sampler in (("outside", OUTSIDE), ("inside", INSIDE))
        for runs in (1, 2)
    }
    ball = sets_of(Ring(0.0, 0.3).draw(similarity, own, "all", seeded()))
    for query in range(QUERIES):
        for runs in (1, 2):
            outside, inside = (set(found[keep, runs][query]) for keep in ("outside", "inside"))
            assert outside | inside == set(ball[query])
            assert not outside & inside
        assert set(found["inside", 1][query]) <= set(found["inside", 2][query])
    assert found["inside", 1] != found["inside", 2]


def test_cave_pads_sets_of_different_sizes_and_the_padding_adds_nothing(similarity, own, clusters):
    found = OUTSIDE.draw(similarity, own, "all", seeded(), 1.0, clusters)
    sizes = [len(rows) for rows in sets_of(found)]
    assert len(set(sizes)) > 1
    masked = found.gather(similarity)
    assert torch.equal(masked == -torch.inf, ~found.mask)
    assert torch.equal(masked[found.mask], similarity.gather(1, found.index)[found.mask])


def test_scores_of_which_none_is_absent_are_not_copied():
    scores = torch.randn(2, 3, generator=seeded())
    assert Selection(None).gather(scores) is scores


def test_no_row_shares_the_cluster_of_a_query_that_is_in_none(similarity, own, clusters):
    nowhere = Clusters(clusters.columns.where(clusters.columns > 0, -1), torch.full_like(clusters.queries, -1))
    found = sets_of(OUTSIDE.draw(similarity, own, "all", seeded(), 1.0, nowhere))
    assert found == sets_of(Ring(0.0, 0.3).draw(similarity, own, "all", seeded()))
    with pytest.raises(InputError, match=f"{QUERIES} queries have no candidate"):
        INSIDE.draw(similarity, own, "all", seeded(), 1.0, nowhere)


@each_sampler
@pytest.mark.parametrize("k", [40, "all"])
@pytest.mark.parametrize("with_own", [True, False])
def test_more_queries_than_are_worked_on_at_a_time_have_each_its_own_set(k, with_own, sampler, generator):
    """Cave goes through 128 queries at a time."""
    queries = 300
    similarity = torch.randn(queries, ROWS, generator=generator)
    of_rows = torch.randint(4, (2, queries, ROWS), generator=generator, dtype=torch.int32)
    clusters = Clusters(of_rows, torch.randint(4, (2, queries), generator=generator, dtype=torch.int32))
    own = torch.randint(-1, ROWS, (queries, 1), generator=generator) if with_own else None
    found = sets_of(sampler.draw(similarity, own, k, seeded(), 1.0, clusters), similarity.shape)
    for query in (0, 127, 128, 255, 256, 299):
        expected = plain_set(similarity, (own, clusters), query, sampler)
        assert set(found[query]) <= expected
        assert k != "all" or set(found[query]) == expected


@pytest.mark.parametrize("k", [10, "all"])
def test_cave_refuses_an_empty_set_with_its_numbers(k, similarity, own):
    together = of_bank(torch.zeros(1, ROWS, dtype=torch.int32), own)
    with pytest.raises(
        InputError,
        match=rf"^sampler cave: {QUERIES} queries have no candidate negatives \(all of their 30 nearest rows are in "
        r"the query's own cluster\)\. Increase samplers\.cave\.outer or samplers\.cave\.clusters\.$",
    ):
        OUTSIDE.draw(similarity, own, k, seeded(), 1.0, together)
    alone = of_bank(torch.arange(ROWS, dtype=torch.int32)[None], own)
    with pytest.raises(
        InputError, match=r"are outside the query's own cluster\)\. Increase samplers\.cave\.outer or decrease samplers"
    ):
        INSIDE.draw(similarity, own, k, seeded(), 1.0, alone)


def test_cave_refuses_when_a_single_query_has_no_negative(similarity, own):
    clusters = torch.zeros(1, ROWS, dtype=torch.int32)
    clusters[0, own[3]] = 1  # the only row of its cluster
    own = torch.where(own == own[3], (own + 1) % ROWS, own).index_fill(0, torch.tensor([3]), int(own[3]))
    with pytest.raises(InputError, match=r"1 queries have no candidate negatives \(all of their 30 nearest rows"):
        INSIDE.draw(similarity, own, 10, seeded(), 1.0, of_bank(clusters, own))


@pytest.mark.parametrize("sampler", [Ring(0.0, 0.009), Ring(0.01, 0.019)])
def test_a_ball_or_ring_that_holds_no_row_is_refused_with_its_numbers(sampler, similarity, own):
    inner, outer = kept_shares(sampler.shares, 1.0)
    with pytest.raises(InputError, match=rf"\[{inner:.4g}, {outer:.4g}\) hold none of the memory's 100 other"):
        sampler.draw(similarity, own, 10, seeded())


def test_ranks_of_bfloat16_scores_are_those_of_the_same_numbers(similarity, own):
    short = similarity.bfloat16()
    assert torch.equal(select(short, own, 3, 20), select(short.float(), own, 3, 20))


def test_a_set_that_the_own_rows_may_fill_is_refused(similarity):
    own = torch.full((QUERIES, 3), -1)
    with pytest.raises(
        InputError, match=r"ranks 99 to 99 of 101 columns may all be of the query's own image, of which 3"
    ):
        Ring(0.99, 1.0).draw(similarity, own, 5, seeded())
