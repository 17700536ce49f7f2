"""Neighbour sets against plain sets, column by column (arXiv:2005.13149, section 4.3 and C.2)."""

import math
from fractions import Fraction

import pytest
import torch
from plain_objectives import in_own_cluster, ranked_others, sets_of

from annulus.negatives.clusters import MARKED, Clusters
from annulus.negatives.neighbours import ClassNeighbours, ClusterNeighbours, among_all, closest, clustered, share_at
from annulus.negatives.scores import StoredScores
from annulus.negatives.selection import Selection, gather

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, COLUMNS, RUNS = 35, 101, 3  # 100 other columns, so that shares are percentages


@pytest.fixture
def scores(generator):
    return torch.randn(QUERIES, COLUMNS, generator=generator, dtype=torch.float64)


@pytest.fixture(params=["shared columns", "columns of each query"])
def clusters(request, generator):
    """Uneven clusters 0 to 5 with a tenth of the columns in none, shared or in another order for each query."""
    drawn = (6 * torch.rand(RUNS, COLUMNS, generator=generator) ** 2).int()
    columns = torch.where(torch.rand(RUNS, COLUMNS, generator=generator) < 0.1, -1, drawn).int()
    if request.param != "shared columns":
        orders = torch.rand(RUNS, QUERIES, COLUMNS, generator=generator).argsort(dim=2)
        columns = columns[:, None].expand(-1, QUERIES, -1).gather(2, orders)
    return Clusters(columns, torch.randint(-1, 6, (RUNS, QUERIES), generator=generator, dtype=torch.int32))


@pytest.fixture(params=["some have an own column", "other views"])
def own(request, generator):
    drawn = torch.randint(-COLUMNS, COLUMNS, (QUERIES,), generator=generator)
    return None if request.param == "other views" else drawn.clamp(min=-1)


def own_columns(own, query):
    return [] if own is None else [int(own[query])]


def test_a_mask_over_all_columns_leaves_out_the_query_s_own_ones_too():
    scores, own = torch.tensor([[9.0, 3.0, 2.0, 1.0]]), torch.tensor([[0, -1]])
    chosen = Selection(None, torch.tensor([[True, True, False, True]]), own)
    assert chosen.gather(scores).tolist() == [[-torch.inf, 3.0, -torch.inf, 1.0]]
    assert chosen.counts(scores).tolist() == [2]
    assert chosen.marked(scores).tolist() == [[False, True, False, True]]


def test_the_closest_are_the_first_of_the_ranked_others(scores, own):
    """The expected number of columns is computed in exact fractions. The scores stay unchanged."""
    others, before = COLUMNS if own is None else COLUMNS - 1, scores.clone()
    for share in ("0", "0.0099", "0.01", "0.29", "0.995", "1"):
        neighbours = closest(scores, own, float(share))
        count = math.floor(Fraction(share) * others)
        assert neighbours.index.shape == (QUERIES, count)
        for query, columns in enumerate(sets_of(neighbours)):
            assert sorted(columns) == sorted(ranked_others(scores[query], own_columns(own, query))[:count])
    assert torch.equal(scores, before)


def test_cluster_neighbours_are_the_plain_union_over_runs(own, clusters):
    """A query without a cluster has no neighbours, even among columns without a cluster."""
    on_a_gpu = among_all(clusters, own)
    assert on_a_gpu.index is None, "an index of all columns takes 8 bytes each"
    every = torch.arange(COLUMNS).expand(QUERIES, -1)
    for neighbours in (clustered(clusters, own), Selection(every, on_a_gpu.mask)):
        for query, columns in enumerate(sets_of(neighbours)):
            others = [column for column in range(COLUMNS) if column not in own_columns(own, query)]
            assert sorted(columns) == [column for column in others if in_own_cluster(column, clusters, query)]


@pytest.mark.parametrize("negatives", ["all", "some"])
def test_neighbours_without_an_index_give_the_scores_and_gradients_of_those_with_one(own, clusters, negatives):
    masked = among_all(clusters, own)
    some = Selection(None, own=own) if negatives == "all" else Selection(torch.arange(QUERIES)[:, None])
    values = torch.randn(QUERIES, COLUMNS, generator=torch.Generator().manual_seed(0))
    results = []
    for neighbours in (masked, Selection(torch.arange(COLUMNS).expand(QUERIES, -1), masked.mask)):
        scores = values.clone().requires_grad_()
        positives, drawn = gather(StoredScores(scores), neighbours, some)
        (positives.exp().sum() + drawn.exp().square().sum()).backward()
        results.append((positives.detach(), drawn.detach(), scores.grad, neighbours.marked(values)))
    for ours, theirs in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs)


def test_padding_is_absent_and_points_to_a_column_that_exists(clusters):
    neighbours = clustered(clusters, None)
    counts = neighbours.mask.sum(dim=1)
    assert counts.min() < counts.max() == neighbours.index.shape[1]
    assert 0 <= neighbours.index.min() <= neighbours.index.max() < COLUMNS
    scores = neighbours.gather(torch.zeros(QUERIES, COLUMNS))
    torch.testing.assert_close(scores.logsumexp(dim=1), counts.log())


@pytest.mark.parametrize("count", [COLUMNS // MARKED - 1, COLUMNS])
def test_members_share_a_cluster_as_the_plain_loop_says(count, clusters, generator):
    members, some = torch.randint(COLUMNS, (QUERIES, count), generator=generator), slice(11, 19)
    expected = [[in_own_cluster(column, clusters, query) for column in row] for query, row in enumerate(members)]
    assert clusters.shared(members).tolist() == expected
    assert clusters.pick(some).shared(members[some]).tolist() == expected[some]


def test_the_share_grows_as_in_c2_from_epoch_10_to_100_of_200_or_in_one_step():
    for epoch, percent in {0: 0, 10: 0, 11: 1 / 90, 55: 0.5, 99: 89 / 90, 100: 1, 101: 1}.items():
        assert share_at(0.01, start=0.05, until=0.5, training=epoch / 200) == pytest.approx(percent / 100)
    assert [share_at(0.2, start=0.5, until=0.5, training=at) for at in (0.0, 0.49, 0.5, 1.0)] == [0.0, 0.0, 0.2, 0.2]
    assert share_at(0.2, start=0.0, until=0.0, training=0.0) == 0.2, "whole from the start on"


def test_neighbours_of_clusters_and_classes_begin_at_their_start(scores, clusters):
    settings = {"start": 0.5, "in_denominator": True}
    by_cluster = ClusterNeighbours(clusters=6, runs=RUNS, iterations=1, **settings)
    for neighbours in (by_cluster, ClassNeighbours(**settings)):
        assert neighbours.find(scores, None, 0.499, clusters) is None
        assert sets_of(neighbours.find(scores, None, 0.5, clusters)) == sets_of(clustered(clusters, None))
