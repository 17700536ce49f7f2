"""k-means: a partition that Lloyd's rule no longer changes, reproducible by seed."""

from importlib.util import find_spec

import pytest
import torch
import torch.nn.functional as F
from pretended_gpu import PretendedGPU

from annulus.device.rng import generator as derived
from annulus.errors import InputError
from annulus.negatives import lloyd
from annulus.negatives.clusters import kmeans

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed; `make install` brings it")
on_cpu = pytest.param(kmeans, marks=needs_faiss, id="CPU")
each_device = pytest.mark.parametrize("kmeans", [on_cpu, pytest.param(lloyd.lloyd, id="GPU")])


@pytest.fixture
def rows(generator):
    return F.normalize(torch.randn(1200, 4, generator=generator), dim=1)


def partition(assigned):
    """Groups of rows as sets, without the clusters' numbers."""
    groups = {}
    for row, cluster in enumerate(assigned.tolist()):
        groups.setdefault(cluster, set()).add(row)
    return {frozenset(group) for group in groups.values()}


@needs_faiss
def test_separate_groups_are_found(generator):
    centres = F.normalize(torch.randn(5, 8, generator=generator), dim=1)
    rows = F.normalize(centres.repeat(20, 1) + 0.02 * torch.randn(100, 8, generator=generator), dim=1)
    truth = {frozenset(range(group, 100, 5)) for group in range(5)}
    partitions = [partition(run) for run in kmeans(rows, clusters=5, iterations=20, runs=10, seed=0)]
    assert truth in partitions
    assert all(len(groups) <= 5 for groups in partitions)


@needs_faiss
def test_every_row_is_in_the_cluster_of_its_nearest_mean(rows):
    """Lloyd's fixed point holds over all rows. By default faiss would sample 256 rows per cluster."""
    [assigned] = kmeans(rows, clusters=2, iterations=200, runs=1, seed=0)
    means = torch.stack([rows[assigned == cluster].mean(dim=0) for cluster in range(2)])
    assert torch.equal(torch.cdist(rows, means).argmin(dim=1).int(), assigned)


def scatter(rows, assigned):
    """Sum of the squared distances of rows from their cluster's mean."""
    parts = [rows[assigned == cluster] for cluster in assigned.unique()]
    return float(sum(((part - part.mean(dim=0)) ** 2).sum() for part in parts))


@needs_faiss
def test_more_iterations_reach_tighter_clusters(rows):
    few, many = (scatter(rows, *kmeans(rows, clusters=20, iterations=count, runs=1, seed=0)) for count in (1, 30))
    assert many < few


@each_device
def test_runs_start_differently_and_the_seed_repeats_them(kmeans, rows):
    first, again, other = (kmeans(rows, clusters=30, iterations=3, runs=3, seed=seed) for seed in (0, 0, 1))
    assert first.shape == (3, 1200)
    assert torch.equal(first, again)
    assert torch.equal(kmeans(rows, clusters=30, iterations=3, runs=1, seed=0)[0], first[0]), "whatever follows it"
    partitions = [frozenset(partition(run)) for run in [*first, *other]]
    assert len(set(partitions)) == 6


def test_more_clusters_than_rows_are_refused_on_each_device(rows):
    with PretendedGPU() as gpu:
        for few in (rows[:7], rows[:7].to(gpu.device)):
            with pytest.raises(InputError, match="8 clusters of 7 rows: give 7 clusters at most"):
                kmeans(few, clusters=8, iterations=1, runs=1, seed=0)


@needs_faiss
def test_the_number_of_threads_does_not_change_the_clusters(rows):
    before, results = torch.get_num_threads(), []
    try:
        for threads in (1, 5):
            torch.set_num_threads(threads)
            results.append(kmeans(rows, clusters=30, iterations=20, runs=2, seed=0))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(*results)


@each_device
def test_a_cluster_that_runs_empty_takes_part_of_a_large_one_where_enough_rows_differ(kmeans, generator, capfd):
    """Half of the rows are equal, so about half of the starts are. Only one of these starts keeps its rows."""
    spread = F.normalize(torch.randn(300, 4, generator=generator), dim=1)
    rows = torch.cat([spread[:1].repeat(300, 1), spread])
    [assigned] = kmeans(rows, clusters=20, iterations=20, runs=1, seed=0)
    assert assigned.unique().tolist() == list(range(20))
    assert assigned[:300].unique().numel() == 1
    [assigned] = kmeans(spread[:3].repeat(20, 1), clusters=10, iterations=10, runs=1, seed=0)
    assert partition(assigned) == {frozenset(range(row, 60, 3)) for row in range(3)}
    assert ((assigned >= 0) & (assigned < 10)).all()
    assert "WARNING" not in "".join(capfd.readouterr())


def test_on_a_gpu_the_cluster_that_is_halved_is_that_of_rows_far_apart_not_far_from_zero(generator):
    tight = 100 + 0.1 * torch.randn(50, 2, generator=generator)
    wide = torch.randn(50, 2, generator=generator)
    centres = torch.stack([tight.mean(dim=0), wide.mean(dim=0), torch.full((2,), 1e4)])[None]
    [moved] = lloyd._moved(torch.cat([tight, wide]), centres)
    assert (moved.norm(dim=1) < 10).tolist() == [False, True, True]


def test_on_a_gpu_each_cluster_that_runs_empty_halves_another_one_the_widest_first():
    means = torch.arange(1.0, 11.0).view(1, 5, 2)
    empty = torch.tensor([[False, True, False, True, False]])
    [split] = lloyd._split(means, empty, torch.tensor([[3.0, 9.0, 5.0, 9.0, 1.0]]))  # an empty cluster's is ignored
    [means] = means
    apart = lloyd.SPLIT * means * torch.tensor([1.0, -1.0])
    assert torch.equal(split[4], means[4])
    for halved, moved in ((2, 1), (0, 3)):
        torch.testing.assert_close(split[halved] - means[halved], -apart[halved], rtol=1e-3, atol=0)
        torch.testing.assert_close(split[moved] - means[halved], apart[halved], rtol=1e-3, atol=0)


def plain_kmeans(rows, clusters, iterations, seed, run):
    """Lloyd's iterations in float64, row by row and cluster by cluster. No cluster may run empty."""
    rows = rows.double()
    centres = rows[torch.randperm(len(rows), generator=derived(seed, "kmeans", run))[:clusters]]
    for step in range(iterations + 1):
        assigned = torch.stack([((row - centres) ** 2).sum(dim=1).argmin() for row in rows])
        if step < iterations:
            centres = torch.stack([rows[assigned == cluster].mean(dim=0) for cluster in range(clusters)])
    return assigned


@pytest.mark.parametrize("scored", [2**26, 100])
def test_on_a_gpu_clusters_are_those_of_plain_k_means_in_however_many_parts(scored, rows, monkeypatch):
    monkeypatch.setattr(lloyd, "SCORED", scored)
    rows = rows[:300]
    results = lloyd.lloyd(rows, clusters=7, iterations=4, runs=2, seed=3)
    for run, assigned in enumerate(results):
        assert torch.equal(assigned.long(), plain_kmeans(rows, 7, 4, 3, run))


def test_rows_on_a_gpu_are_clustered_there(rows):
    with PretendedGPU() as gpu:
        assigned = kmeans(rows.to(gpu.device), clusters=20, iterations=2, runs=2, seed=0)
        assert assigned.is_cuda
        assigned = assigned.cpu()
    assert torch.equal(assigned, lloyd.lloyd(rows, clusters=20, iterations=2, runs=2, seed=0))
