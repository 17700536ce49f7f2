"""Neighbour sets against plain sets, column by column, as arXiv:2005.13149 section 4.3 and C.2 tell them."""

import math
from fractions import Fraction

import pytest
import torch

from annulus.negatives.clusters import Clusters
from annulus.negatives.neighbours import closest, clustered, share_at
from annulus.negatives.samplers import Ring

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, COLUMNS, RUNS = 35, 101, 3  # 100 other columns, so that shares are percentages


@pytest.fixture
def scores(generator):
    return torch.randn(QUERIES, COLUMNS, generator=generator, dtype=torch.float64)


@pytest.fixture
def clusters(generator):
    """Uneven clusters 0 to 5, and a tenth of the columns in none."""
    drawn = (6 * torch.rand(RUNS, COLUMNS, generator=generator) ** 2).int()
    return torch.where(torch.rand(RUNS, COLUMNS, generator=generator) < 0.1, -1, drawn).int()


@pytest.fixture
def query_clusters(generator):
    return torch.randint(-1, 6, (RUNS, QUERIES), generator=generator, dtype=torch.int32)


def owns(kind, generator):
    drawn = torch.randint(COLUMNS, (QUERIES,), generator=generator)
    return {
        "bank": drawn,
        "queue": torch.where(torch.rand(QUERIES, generator=generator) < 0.5, -1, drawn),
        "queue without own keys": torch.full((QUERIES,), -1),
        "other views": None,
    }[kind]


each_own = pytest.mark.parametrize("kind", ["bank", "queue", "queue without own keys", "other views"])


def column_of(own, query):
    return -1 if own is None else int(own[query])


def sets_of(neighbours):
    """The columns of each query, padding left out."""
    if neighbours.mask is None:
        return neighbours.index.tolist()
    return [row[there].tolist() for row, there in zip(neighbours.index, neighbours.mask, strict=True)]


# --- the closest --------------------------------------------------------------------------------------


def plain_closest(scores, own, others, share):
    """Rank the other columns and take the first percent of them, counted in exact fractions."""
    order = sorted((column for column in range(COLUMNS) if column != own), key=lambda column: -float(scores[column]))
    return order[: math.floor(Fraction(share) * others)]


@each_own
@pytest.mark.parametrize("share", ["0", "0.001", "0.0099", "0.01", "0.07", "0.29", "0.5", "0.995", "1"])
def test_the_closest_are_the_first_of_the_ranked_others(share, kind, scores, generator):
    own = owns(kind, generator)
    others = COLUMNS if own is None else COLUMNS - 1
    found = sets_of(closest(scores, own, float(share)))
    for query, columns in enumerate(found):
        expected = plain_closest(scores[query], column_of(own, query), others, share)
        assert sorted(columns) == sorted(expected)


@pytest.mark.parametrize("share", [0.0, 0.001, 0.0099])
def test_a_share_of_less_than_one_column_gives_none(share, scores, generator):
    found = closest(scores, owns("bank", generator), share)
    assert found.index.shape == (QUERIES, 0)
    assert scores.gather(1, found.index).shape == (QUERIES, 0)


@each_own
@pytest.mark.parametrize("standing", ["highest", "lowest", "tied with all"])
def test_the_own_column_is_never_among_the_closest(standing, kind, scores, generator):
    own = owns(kind, generator)
    if own is not None:
        column, owned = own.clamp(min=0)[:, None], (own >= 0)[:, None]
        value = {"highest": 100.0, "lowest": -100.0}.get(standing)
        scores = torch.zeros_like(scores) if value is None else scores.scatter(1, column, value * owned.double())
    for share in (0.01, 0.3, 1.0):
        for query, columns in enumerate(sets_of(closest(scores, own, share))):
            assert column_of(own, query) not in columns
            assert len(set(columns)) == len(columns)


@each_own
@pytest.mark.parametrize("share", [0.01, 0.07, 0.29])
def test_the_closest_end_where_a_ring_with_the_same_share_begins(share, kind, scores, generator):
    """RING + s-neigh: neighbours and negatives have no column in common, and leave none between them."""
    own = owns(kind, generator)
    inner = sets_of(closest(scores, own, share))
    ring = sets_of(Ring(share, 0.5).draw(scores, own, "all", generator))
    ball = sets_of(closest(scores, own, 0.5))
    for near, middle, whole in zip(inner, ring, ball, strict=True):
        assert sorted(near + middle) == sorted(whole)


def test_finding_the_closest_leaves_the_scores_as_they_are(scores, generator):
    before = scores.clone()
    closest(scores, owns("bank", generator), 0.1)
    assert torch.equal(scores, before)


# --- the clusters -------------------------------------------------------------------------------------


def plain_clustered(clusters, query_clusters, own):
    """Column by column and run by run."""
    return [
        column
        for column in range(COLUMNS)
        if column != own
        and any(of[column] == mine and mine != -1 for of, mine in zip(clusters, query_clusters, strict=True))
    ]


def plain_columns(clusters, query):
    return (clusters if clusters.ndim == 2 else clusters[:, query]).tolist()


@pytest.fixture(params=["shared columns", "columns of each query"])
def either_clusters(request, clusters, generator):
    """One row of columns for all queries, or for each query the same columns in an order of its own."""
    if request.param == "shared columns":
        return clusters
    orders = torch.rand(RUNS, QUERIES, COLUMNS, generator=generator).argsort(dim=2)
    return clusters[:, None].expand(-1, QUERIES, -1).gather(2, orders)


@each_own
@pytest.mark.parametrize("runs", [1, 2, 3])
def test_cluster_neighbours_are_the_plain_union_over_runs(runs, kind, either_clusters, query_clusters, generator):
    own = owns(kind, generator)
    found = clustered(Clusters(either_clusters[:runs], query_clusters[:runs]), own)
    for query, columns in enumerate(sets_of(found)):
        of = plain_columns(either_clusters[:runs], query)
        expected = plain_clustered(of, query_clusters[:runs, query].tolist(), column_of(own, query))
        assert sorted(columns) == expected  # each once, however many runs agree


def test_each_further_run_adds_columns_and_takes_none(clusters, query_clusters):
    one, all_runs = (sets_of(clustered(Clusters(clusters[:r], query_clusters[:r]), None)) for r in (1, RUNS))
    assert all(set(few) <= set(more) for few, more in zip(one, all_runs, strict=True))
    assert sum(map(len, one)) < sum(map(len, all_runs))


def test_the_own_column_is_in_its_cluster_but_never_a_neighbour(clusters, generator):
    own = owns("bank", generator)
    mine = clusters[:, own]
    for query, columns in enumerate(sets_of(clustered(Clusters(clusters, mine), own))):
        assert own[query] not in columns
        in_some = (mine[:, query] >= 0).any()
        assert (own[query] in sets_of(clustered(Clusters(clusters, mine), None))[query]) == in_some


def test_padding_is_absent_and_points_to_a_column_that_exists(either_clusters, query_clusters, generator):
    found = clustered(Clusters(either_clusters, query_clusters), owns("queue", generator))
    counts = found.mask.sum(dim=1)
    assert counts.min() < counts.max() == found.index.shape[1]
    assert 0 <= found.index.min() <= found.index.max() < COLUMNS
    scores = found.gather(torch.zeros(QUERIES, COLUMNS))
    torch.testing.assert_close(scores.logsumexp(dim=1), counts.log())


def test_cluster_minus_one_belongs_to_nobody(either_clusters):
    """A query in no cluster has no neighbours, not even among columns in none."""
    nothing = torch.full((RUNS, QUERIES), -1, dtype=torch.int32)
    assert clustered(Clusters(either_clusters, nothing), None).index.shape == (QUERIES, 0)
    assert (either_clusters == -1).any()


def test_a_cluster_without_columns_gives_no_neighbours(clusters):
    empty = torch.full((RUNS, QUERIES), 99, dtype=torch.int32)
    assert clustered(Clusters(clusters, empty), None).index.shape == (QUERIES, 0)


# --- sharing a cluster --------------------------------------------------------------------------------


def plain_shared(rows, queries, members):
    return [
        [any(run[row] == mine and mine != -1 for run, mine in zip(rows, queries, strict=True)) for row in members]
        for members, queries, rows in zip(members, queries, rows, strict=True)
    ]


@pytest.fixture(params=["shared rows", "rows of each query"])
def labels(request, generator):
    """Three clusterings of 40 rows, 30 queries."""
    shape = (3, 40) if request.param == "shared rows" else (3, 30, 40)
    rows, queries = (torch.randint(-1, 5, size, generator=generator, dtype=torch.int32) for size in (shape, (3, 30)))
    return Clusters(rows, queries)


def test_members_share_a_cluster_as_the_plain_loop_says(labels, generator):
    members = torch.randint(40, (30, 17), generator=generator)
    rows = labels.columns if labels.columns.ndim == 3 else labels.columns[:, None].expand(-1, 30, -1)
    expected = plain_shared(rows.transpose(0, 1).tolist(), labels.queries.T.tolist(), members.tolist())
    assert labels.shared(members).tolist() == expected


def test_some_queries_share_what_they_share_among_all(labels, generator):
    members, some = torch.randint(40, (30, 17), generator=generator), slice(11, 19)
    assert torch.equal(labels.of(some).shared(members[some]), labels.shared(members)[some])


# --- annealing ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epoch", "percent"),
    [(0, 0), (9, 0), (10, 0), (11, 1 / 90), (55, 0.5), (99, 89 / 90), (100, 1), (101, 1), (199, 1), (200, 1)],
)
def test_the_share_grows_as_in_c2_from_epoch_10_to_100_of_200(epoch, percent):
    assert share_at(0.01, start=10 / 200, until=100 / 200, training=epoch / 200) == pytest.approx(percent / 100)


@pytest.mark.parametrize(("trained", "share"), [(0.0, 0.0), (0.49, 0.0), (0.5, 0.2), (1.0, 0.2)])
def test_a_start_and_end_at_once_is_a_step(trained, share):
    assert share_at(0.2, start=0.5, until=0.5, training=trained) == share


def test_neighbours_from_the_start_on_are_whole_at_once():
    assert share_at(0.2, start=0.0, until=0.0, training=0.0) == 0.2
