"""Samplers against sorted() and plain loops, and the distribution of their draws, over bank, queue and batch."""

import math
from dataclasses import replace

import pytest
import torch
from plain_objectives import plain_negatives, sets_of
from pretended_gpu import PretendedGPU

from annulus.errors import InputError
from annulus.negatives import ranked, threshold
from annulus.negatives.by_rank import COUNTED, SEARCHED, draw_masked, ring, uniform
from annulus.negatives.clusters import Clusters
from annulus.negatives.random_numbers import fractions
from annulus.negatives.ranked import select
from annulus.negatives.samplers import Ball, Cave, Ring, Uniform

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, ROWS = 35, 101  # more queries than one chunk of work; 100 other rows, so that shares are percentages
OUTSIDE = Cave(outer=0.3, keep="outside", clusters=4, iterations=1, runs=2)
INSIDE = replace(OUTSIDE, keep="inside")
SAMPLERS = {
    "uniform": Uniform(),
    "ball": Ball(0.29),
    "ring": Ring(inner=0.07, outer=0.3),
    "wide ring": Ring(inner=0.29, outer=1.0),  # 0.29 * 100 is 28.999... in floating point
    "outside": OUTSIDE,
    "inside": replace(INSIDE, outer=1.0),
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
    row_clusters = torch.randint(4, (2, ROWS), generator=generator, dtype=torch.int32)
    return Clusters(row_clusters, row_clusters[:, own])


@pytest.fixture(params=["bank", "queue", "queue without own keys", "other views"])
def memory(request, own, clusters, generator):
    """Own rows and clusters of the queries: in a bank one own row each, in a queue zero to two, in a batch none.

    Keys of a queue without an image are in no cluster. In a batch each query has other columns.
    """
    row_clusters, query_clusters = clusters.columns, clusters.queries
    match request.param:
        case "bank":
            return own, clusters
        case "queue" | "queue without own keys":
            places = torch.stack([own, (own - 1 - torch.arange(QUERIES) % 7) % ROWS], dim=1)
            if request.param != "queue":
                places.fill_(-1)
            has = torch.rand(QUERIES, 2, generator=generator) < 0.5
            has[:2] = True
            written = torch.rand(ROWS, generator=generator) < 0.8
            return torch.where(has, places, -1), Clusters(row_clusters.where(written, -1).int(), query_clusters)
    orders = torch.rand(QUERIES, ROWS, generator=generator).argsort(dim=1)
    return None, Clusters(row_clusters[:, orders], query_clusters)


def seeded(seed=1):
    return torch.Generator().manual_seed(seed)


def plain_set(similarity, memory, query, sampler, progress="1"):
    """Negatives of one query by the papers' definitions."""
    own, clusters = memory
    others = ROWS if own is None else ROWS - 1
    return plain_negatives(similarity[query], own_rows(own, query), others, sampler, progress, clusters, query)


def own_rows(own, query):
    return [] if own is None else [row for row in own.view(len(own), -1)[query].tolist() if row >= 0]


# --- the set ------------------------------------------------------------------------------------------


@each_sampler
def test_all_is_the_plain_set_at_every_stage_of_annealing(sampler, similarity, memory):
    for progress in ("0", "0.001", "0.3", "0.5", "1"):
        selection = sampler.draw(similarity, memory[0], "all", seeded(), float(progress), memory[1])
        for query, rows in enumerate(sets_of(selection, similarity.shape)):
            assert len(rows) == len(set(rows)), "a row stands twice"
            assert set(rows) == plain_set(similarity, memory, query, sampler, progress)
        assert (selection.index is None) or progress != "0", "the whole memory needs no ranks"


RANKS = [(0, 1), (0, 40), (1, 2), (39, 40), (10, 40), (0, 99), (99, 100), (1, 100)]


class OnGPU(torch.Tensor):
    """Tensor with `is_cuda` set, so that the GPU's selection runs here."""

    is_cuda = True


@pytest.mark.parametrize("kind", [torch.Tensor, OnGPU])
def test_selected_ranks_are_exact_up_to_both_ends(kind, similarity, memory):
    own, scores = memory[0], similarity.as_subclass(kind)
    for first, last in RANKS:
        selected = torch.Tensor(select(scores, own, first, last)).long()
        for query in range(QUERIES):
            order = sorted(range(ROWS), key=lambda row: -float(similarity[query, row]))
            mine = own_rows(own, query)  # these rank last, in any order
            order = [row for row in order if row not in mine] + mine
            assert set(selected[query].tolist()) - set(mine) == set(order[first:last]) - set(mine)
            assert len(set(selected[query].tolist())) == last - first
        places = torch.randint(last - first, (QUERIES, 7), generator=seeded())
        drawn = torch.Tensor(select(scores, own, first, last, places)).long()
        assert kind is torch.Tensor or torch.equal(drawn, selected.gather(1, places))
    short = similarity.bfloat16()
    assert torch.equal(select(short, own, 3, 20), select(short.float(), own, 3, 20))


def test_a_large_memory_has_the_same_ranks_and_equal_scores_rank_by_column(generator):
    columns = ranked.LARGE + 5
    drawn = torch.randn(6, columns, generator=generator)
    drawn[1] = (4 * drawn[1]).round() / 4  # thousands of ties
    drawn[2] = drawn[2].sort().values
    drawn[3] = 0.0
    drawn[4] = -10.0
    drawn[4, :: int(columns**ranked.STRIDE)] = 10.0  # the sample misleads: all of it is far above the others
    drawn[5, ::3] = -torch.inf
    own = torch.randint(columns, (6,), generator=generator)
    for first, last in ((0, 1), (0, 700), (1, 2), (160, 1600), (80, 9000), (columns - 9, columns - 1)):
        selected = select(drawn, own, first, last)
        assert torch.equal(selected, threshold.plain(drawn, own, first, last))
        places = torch.randint(last - first, (6, 7), generator=seeded())
        assert torch.equal(select(drawn, own, first, last, places), selected.gather(1, places))
    drawn[:, 7] = drawn[0] = torch.nan  # the loss's check finds it
    assert select(drawn, own, 80, 9000).sort(dim=1).values.diff(dim=1).min() > 0, "a column stands twice"


@pytest.mark.parametrize("queries", [1, 13, 24])
def test_queries_that_threads_share_have_the_same_ranks(queries, generator, monkeypatch):
    drawn, own = torch.randn(queries, 50, generator=generator), torch.arange(queries)
    places = torch.randint(17, (queries, 7), generator=generator)
    alone = select(drawn, own, 3, 20), select(drawn, own, 3, 20, places)
    monkeypatch.setattr(ranked, "THREADED", drawn.numel())
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    shared = []
    pool = ranked.ThreadPoolExecutor
    monkeypatch.setattr(ranked, "ThreadPoolExecutor", lambda threads: shared.append(threads) or pool(threads))
    assert torch.equal(select(drawn, own, 3, 20), alone[0])
    assert torch.equal(select(drawn, own, 3, 20, places), alone[1])
    assert shared == [3, 3]


@each_sampler
def test_the_own_row_is_never_a_negative_where_scores_are_tied(sampler, similarity, own, clusters):
    column = own[:, None]
    ties = torch.zeros_like(similarity), similarity.scatter(1, column, 100.0).scatter(1, (column + 1) % ROWS, 100.0)
    for scores in ties:
        for k, progress in (("all", 0.5), ("all", 1.0), (500, 0.0), (500, 1.0)):
            drawn = sampler.draw(scores, own, k, seeded(), progress, clusters)
            sets = sets_of(drawn, scores.shape)
            assert drawn.counts(scores).tolist() == [len(rows) for rows in sets]
            assert not any(row in rows for rows, row in zip(sets, own.tolist(), strict=True))


# --- the draws ----------------------------------------------------------------------------------------


@each_sampler
def test_draws_are_uniform_and_independent_over_the_whole_set(sampler, similarity, memory):
    """Chi-square of the counts. Consecutive draws from m rows agree with probability 1/m."""
    drawn = sampler.draw(similarity, memory[0], 5_000, seeded(), 1.0, memory[1])
    assert drawn.index.shape == (QUERIES, 5_000)
    assert drawn.mask is None
    statistic, freedom, chance = 0.0, 0, 0.0
    for query in range(QUERIES):
        members = sorted(plain_set(similarity, memory, query, sampler))
        counts = drawn.index[query].bincount(minlength=ROWS).double()
        assert counts.nonzero().flatten().tolist() == members
        expected = 5_000 / len(members)
        statistic += float(((counts[members] - expected) ** 2 / expected).sum())
        freedom += len(members) - 1
        chance += 4_999 / len(members)
    assert abs(statistic - freedom) < 4 * math.sqrt(2 * freedom)  # mean df, variance 2 df
    same = (drawn.index[:, 1:] == drawn.index[:, :-1]).sum().item()
    assert same == pytest.approx(chance, abs=4 * math.sqrt(chance))
    again = sampler.draw(similarity, memory[0], 5_000, seeded(), 1.0, memory[1])
    assert torch.equal(again.index, drawn.index), "the seed repeats them"


def test_ball_and_ring_of_the_whole_memory_are_uniform_draw_for_draw(similarity, own):
    whole = Uniform(), Ball(outer=1.0), Ring(inner=0.0, outer=1.0)
    first, *others = (params.draw(similarity, own, 500, seeded(), 1.0).index for params in whole)
    assert all(torch.equal(first, other) for other in others)


@pytest.mark.parametrize("k", [60 // SEARCHED, 60 // SEARCHED + 1, 200])
def test_draws_of_kept_members_are_the_plain_list_s_however_these_are_found(k, generator):
    index = torch.randint(ROWS, (QUERIES, 60), generator=generator)
    kept = torch.rand(QUERIES, 60, generator=generator) < torch.linspace(0.05, 1, QUERIES)[:, None]
    kept[:, 30] = True
    drawn = torch.rand(QUERIES, k, generator=generator)
    drawn[0, 0], drawn[1, 0] = 0.0, 1 - 2**-24
    columns = draw_masked(index, kept, drawn).index
    for query in range(QUERIES):
        members = index[query][kept[query]].tolist()
        assert columns[query].tolist() == [members[int(place * len(members))] for place in drawn[query]]


# --- cave ---------------------------------------------------------------------------------------------


def test_no_row_shares_the_cluster_of_a_query_that_is_in_none(similarity, own, clusters):
    nowhere = Clusters(clusters.columns.where(clusters.columns > 0, -1), torch.full_like(clusters.queries, -1))
    sets = sets_of(OUTSIDE.draw(similarity, own, "all", seeded(), 1.0, nowhere))
    assert sets == sets_of(Ball(0.3).draw(similarity, own, "all", seeded()))
    with pytest.raises(InputError, match=f"{QUERIES} queries have no candidate"):
        INSIDE.draw(similarity, own, "all", seeded(), 1.0, nowhere)


@each_sampler
def test_more_queries_than_are_worked_on_at_a_time_have_each_its_own_set(sampler, generator):
    """Cave processes 128 queries at a time."""
    queries = 300
    similarity = torch.randn(queries, ROWS, generator=generator)
    row_clusters = torch.randint(4, (2, queries, ROWS), generator=generator, dtype=torch.int32)
    clusters = Clusters(row_clusters, torch.randint(4, (2, queries), generator=generator, dtype=torch.int32))
    for own in (torch.randint(-1, ROWS, (queries, 1), generator=generator), None):
        for k in (40, "all"):
            sets = sets_of(sampler.draw(similarity, own, k, seeded(), 1.0, clusters), similarity.shape)
            for query in (0, 127, 128, 255, 256, 299):
                expected = plain_set(similarity, (own, clusters), query, sampler)
                assert set(sets[query]) <= expected
                assert k != "all" or set(sets[query]) == expected


def test_no_two_queries_of_a_cave_draw_alike_however_many_are_worked_on_at_a_time():
    """All queries here have equal scores and the same cluster."""
    clusters = Clusters((torch.arange(ROWS) % 4)[None], torch.zeros(1, 300, dtype=torch.int64))
    drawn = OUTSIDE.draw(torch.zeros(300, ROWS), None, 40, seeded(), 1.0, clusters).index
    assert len(drawn.unique(dim=0)) == 300


# --- refusals -----------------------------------------------------------------------------------------


def test_a_set_without_a_row_is_refused_with_its_numbers(similarity, own):
    def bank(row_clusters, own=own):
        return Clusters(row_clusters.int(), row_clusters[:, own].int())

    one = torch.zeros(1, ROWS)
    one[0, own[3]] = 1  # the only row of its cluster
    others = torch.where(own == own[3], (own + 1) % ROWS, own).index_fill(0, torch.tensor([3]), int(own[3]))
    empty = rf"^sampler cave: {QUERIES} queries have no candidate negatives \(all of their 30 nearest rows are "
    widen = r"in the query's own cluster\)\. Increase its outer or its clusters\. In a loop "
    narrow = r"outside the query's own cluster\)\. Increase its outer or decrease its c"
    nowhere = torch.full((QUERIES, 3), -1)
    for sampler, rows, clusters, sentence in (
        (OUTSIDE, own, bank(torch.zeros(1, ROWS)), empty + widen),
        (INSIDE, own, bank(torch.arange(ROWS)[None]), empty + narrow),
        (INSIDE, others, bank(one, others), r"1 queries have no candidate negatives \(all of their 30 nearest rows"),
        (Ring(inner=0.01, outer=0.019), own, None, r"\[0\.01, 0\.019\) hold none of the memory's 100 other"),
        (
            Ring(inner=0.99, outer=1.0),
            nowhere,
            None,
            "ranks 99 to 99 of 101 columns may all be of the query's own image, whi",
        ),
    ):
        for k in (10, "all") if clusters else (10,):
            with pytest.raises(InputError, match=sentence):
                sampler.draw(similarity, rows, k, seeded(), 1.0, clusters)


@pytest.mark.parametrize("k", [ROWS // COUNTED - 1, ROWS // COUNTED + 1, 500])
def test_draws_of_several_own_rows_are_places_among_the_others_however_these_are_found(k, similarity, generator):
    own = torch.stack([torch.randperm(ROWS, generator=generator)[:40] for _ in similarity])
    own[3:, 7:] = own[:3, :2] = -1
    drawn = Uniform().draw(similarity, own, k, seeded()).index
    for rows, columns, share in zip(own.tolist(), drawn, fractions(len(own), k, seeded()), strict=True):
        others = torch.tensor([row for row in range(ROWS) if row not in rows])
        assert torch.equal(columns, others[(share * len(others)).long()])


def test_on_a_gpu_own_columns_that_are_not_there_are_refused_without_a_wait_and_so_is_a_generator_of_the_host():
    with PretendedGPU() as gpu, gpu.counting() as counts:
        scores, random = torch.zeros(2, 9, device=gpu.device), torch.Generator(gpu.device)
        uniform(scores, torch.arange(2, device=gpu.device), 4, random)
        with pytest.raises(InputError, match=r"generator on cpu with scores on cuda: give torch\.Generator\('cuda'\)"):
            uniform(scores, None, 4, torch.Generator())
        with pytest.raises(RuntimeError, match="give own columns from 0 to 8"):  # a device-side assertion
            uniform(scores, torch.arange(2, device=gpu.device) - 1, 4, random)
        with pytest.raises(InputError, match="self_index on cpu, but scores on cuda"):
            uniform(scores, torch.arange(2), 4, random)
    assert not counts.waits, counts.table()


def test_a_generator_that_is_put_back_draws_on_as_if_nothing_had_happened(generator):
    """A user's own loop saves the generator's state beside its modules."""
    scores, own = torch.randn(3, 50, generator=generator), torch.arange(3)
    state = generator.get_state()
    first = ring(scores, own, 0.1, 0.5, 8, generator).index
    assert not torch.equal(ring(scores, own, 0.1, 0.5, 8, generator).index, first)
    generator.set_state(state)
    assert torch.equal(ring(scores, own, 0.1, 0.5, 8, generator).index, first)
