"""The samplers' sets against sorting by hand, and their numbers against counting by hand."""

import math
from dataclasses import dataclass, replace

import pytest
import torch
import torch.nn.functional as F

from annulus.diagnostics import membership
from annulus.diagnostics.membership import candidate_sets, cave_for, false_negative_percent, members
from annulus.errors import InputError
from annulus.negatives.by_weight import draw_weighted
from annulus.negatives.ranks import kept_shares
from annulus.negatives.samplers import Ball, Cave, Ring, Sampler, Uniform

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

QUERIES, ROWS, CLASSES = 6, 41, 4
OWN = torch.tensor([3, 40, 0, 17, 22, 5])
RING = Ring(inner=0.1, outer=0.5)
CAVE = Cave(outer=0.5, keep="outside", clusters=5, iterations=3, runs=2)


def test_a_set_is_the_ranks_that_training_draws_from_and_its_radii_the_similarities_at_its_borders(generator):
    similarity = torch.randn(QUERIES, ROWS, generator=generator)
    closest = [
        sorted(set(range(ROWS)) - {own}, key=row.__getitem__, reverse=True)
        for own, row in zip(OWN.tolist(), similarity.tolist(), strict=True)
    ]
    for progress, first, last in ((1.0, 4, 20), (0.5, 2, 30), (0.0, 0, 40)):
        for actual, order in zip(members(similarity, OWN, RING, progress), closest, strict=True):
            assert set(actual.nonzero().flatten().tolist()) == set(order[first:last])
    borders = [[similarity[query, order[rank]].item() for query, order in enumerate(closest)] for rank in (4, 19)]
    actual = membership.radii(similarity, members(similarity, OWN, RING))
    assert actual == pytest.approx([sum(values) / QUERIES for values in borders])


def test_false_negatives_are_the_members_with_the_query_s_label_sets_of_different_sizes_counting_alike(generator):
    chosen, labels = torch.rand(QUERIES, ROWS, generator=generator) < 0.3, torch.arange(ROWS) % CLASSES
    chosen[0] = chosen[0].cumsum(0).eq(1) & chosen[0]  # one row
    shares = [(labels[rows] == labels[own]).double().mean() for rows, own in zip(chosen, OWN, strict=True)]
    assert false_negative_percent(chosen, labels, OWN) == pytest.approx(100 * sum(shares).item() / QUERIES)


def test_chance_is_the_share_of_pairs_with_one_label_and_uniform_with_every_row_a_query_is_chance(generator):
    labels, everyone = torch.randint(0, CLASSES, (ROWS,), generator=generator), torch.arange(ROWS)
    same = (labels == labels[:, None]).sum().item() - ROWS
    assert membership.chance_percent(labels) == pytest.approx(100 * same / (ROWS * (ROWS - 1)))
    uniform = members(torch.zeros(ROWS, ROWS), everyone, Uniform())
    assert false_negative_percent(uniform, labels, everyone) == pytest.approx(membership.chance_percent(labels))


def test_progress_is_read_back_from_the_shares_of_a_learning_curve():
    for sampler in (Uniform(), Ball(0.1), RING, Ring(inner=0.2, outer=1.0), CAVE):
        for progress in (0.0, 0.3, 1.0):
            shares = kept_shares(sampler.shares, progress)
            actual = membership.annealing_progress(sampler, *(round(share, 6) for share in shares))
            assert kept_shares(sampler.shares, actual) == pytest.approx(shares, abs=1e-5)
            assert 0 <= actual <= 1
    assert membership.annealing_progress(Ball(0.1), 0.0, 0.0999) == 1, "a share that a file rounds down"
    start = membership.annealing_progress(CAVE, *kept_shares(CAVE.shares, 0.0))
    assert start == 0, "cave's clusters count from the first move on"


def test_a_part_of_the_images_has_fewer_clusters_of_the_same_size():
    for clusters, images, train_images, expected in (
        (300, 3600, 3600, 300),
        (300, 4096, 45000, 27),
        (10, 100, 3600, 2),
        (300, 100, 100, 50),
    ):
        cave, smaller = (replace(CAVE, clusters=n) for n in (clusters, expected))
        assert cave_for(cave, images, train_images) == smaller


@pytest.fixture
def comparisons(generator):
    """Two comparisons; in each of them queries are near their own rows."""
    rows = F.normalize(torch.randn(2, ROWS, 5, generator=generator), dim=2)
    queries = F.normalize(rows[:, OWN] + 0.1 * torch.randn(2, QUERIES, 5, generator=generator), dim=2)
    return list(zip(queries, rows, strict=True))


def test_every_side_has_its_own_similarities_and_sets(comparisons):
    samplers = {"ring": (RING, 1.0), "training": (RING, 0.5)}
    sets = candidate_sets(comparisons, OWN, samplers, seed=0, temperature=0.2)
    assert sets.faults == {}
    for side, (queries, rows) in enumerate(comparisons):
        torch.testing.assert_close(sets.similarity[side], queries @ rows.T)
        for name, (sampler, progress) in samplers.items():
            expected = members(sets.similarity[side], OWN, sampler, progress)
            assert torch.equal(sets.chosen[name][side], expected)
    assert not torch.equal(*sets.chosen["ring"])
    with pytest.raises(InputError, match="hold none of the memory's 40 other rows"):
        members(sets.similarity[0], OWN, Ball(0.01))


def test_a_sampler_that_asks_for_images_is_left_out_with_the_reason(comparisons):
    asking = type("Asking", (Uniform,), {"clustering": "images"})()
    sets = candidate_sets(
        comparisons, OWN, {"asking": (asking, 1.0), "ball": (Ball(0.5), 1.0)}, seed=0, temperature=0.2
    )
    assert sets.faults == {"asking": "sampler asking needs the images of the rows, which snapshots do not hold"}
    assert sets.chosen.keys() == {"ball"}


@dataclass(frozen=True)
class Weighing(Sampler):
    """Sampler that draws closer rows more often."""

    beta: float

    def draw(self, scores, self_index, k, generator, progress=1.0, clusters=None):
        return draw_weighted((self.beta * progress * scores).exp(), self_index, k, generator)


def test_where_a_sampler_draws_by_weight_and_has_no_set_its_draws_are_counted_and_rated(comparisons):
    labels = (comparisons[0][1][:, :2] > 0).long() @ torch.tensor([1, 2])  # of the first side's rows
    mine, empty = {"mine": (Weighing(9.0), 0.5)}, {"empty": (Ball(0.01), 1.0)}
    sets, again = (candidate_sets(comparisons, OWN, each, 0, temperature=0.9) for each in (mine | empty, mine))
    assert sets.chosen == {}
    assert sets.drawn.keys() == {"mine"}
    assert "hold none of the memory's 40 other rows" in sets.faults["empty"]
    for side, similarity in enumerate(sets.similarity):
        counts = sets.drawn["mine"][side]
        assert torch.equal(counts, again.drawn["mine"][side])
        assert (counts.sum(dim=1) == membership.DRAWS).all()
        rates = []
        for query, own in enumerate(OWN.tolist()):
            assert counts[query, own] == 0
            weights = [0 if row == own else math.exp(4.5 * similarity[query, row].item() / 0.9) for row in range(ROWS)]
            rates.append(sum(weights[row] for row in range(ROWS) if labels[row] == labels[own]) / sum(weights))
        expected = 100 * sum(rates) / QUERIES
        assert false_negative_percent(counts, labels, OWN) == pytest.approx(expected, abs=2)
        every = false_negative_percent(members(similarity, OWN, Uniform()), labels, OWN)
        assert side == 1 or expected > every + 15, "what the set of all would say is something else"


def test_a_cave_s_clusters_are_those_of_the_rows_and_follow_the_seed(comparisons):
    samplers = {"ball": (Ball(0.5), 1.0), "cave": (CAVE, 1.0), "training": (CAVE, 1.0)}
    sets, again, other = (candidate_sets(comparisons, OWN, samplers, seed=seed, temperature=0.2) for seed in (0, 0, 1))
    for side, similarity in enumerate(sets.similarity):
        ball, cave = sets.chosen["ball"][side], sets.chosen["cave"][side]
        assert (cave & ~ball).sum() == 0
        assert 0 < cave.sum() < ball.sum()
        assert torch.equal(cave, sets.chosen["training"][side])
        assert torch.equal(cave, again.chosen["cave"][side])
        assert similarity[ball & ~cave].mean() > similarity[cave].mean(), "a cluster holds what is near"
    assert any(not torch.equal(other.chosen["cave"][side], sets.chosen["cave"][side]) for side in range(2))
