"""Theorems of the papers about samplers, tested on enumerated draws for critics of every shape."""

import itertools

import pytest
import torch
from plain_objectives import sets_of

from annulus.bounds.infonce import infonce
from annulus.negatives.clusters import Clusters
from annulus.negatives.samplers import Ball, Cave, Ring, Uniform

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def normal(generator):
    return torch.randn(4, 21, generator=generator, dtype=torch.float64)


CRITICS = {
    "normal": normal,
    "sharp": lambda generator: 14 * normal(generator),
    "heavy-tailed": lambda generator: normal(generator).pow(5),
    "coarse": lambda generator: torch.randint(3, (4, 21), generator=generator).double(),
}
ALL, OWN = Uniform(), torch.tensor([0, 20, 7, 7])


def members(scores, sampler, clusters=None):
    return sets_of(sampler.draw(scores, OWN, "all", torch.Generator(), 1.0, clusters), scores.shape)


def pair_losses(scores, sampler, clusters=None):
    """Mean and least loss of each query over all m * m equally likely pairs of negatives."""
    losses = []
    for query, rows in enumerate(members(scores, sampler, clusters)):
        positive, drawn = scores[query, OWN[query]], scores[query, rows]
        pairs = torch.cartesian_prod(drawn, drawn)
        lowest = min(infonce(positive[None, None], pair[None]).item() for pair in drawn[:, None].expand(-1, 2))
        losses.append((infonce(positive.expand(len(pairs), 1), pairs).item(), lowest))
    return losses


@pytest.mark.parametrize("critic", CRITICS)
def test_a_ball_bounds_information_no_higher_than_all_negatives_for_every_critic(critic, generator):
    """CNCE <= NCE without a condition on the threshold (ring section 3, statement 3; mutualinfo section 3, on 4)."""
    for _ in range(2):
        scores = CRITICS[critic](generator)
        by_size = [pair_losses(scores, Ball(outer)) for outer in (1.0, 0.8, 0.35, 0.05)]
        for larger, smaller in itertools.pairwise(by_size):
            for (larger_loss, _), (smaller_loss, _) in zip(larger, smaller, strict=True):
                assert smaller_loss >= larger_loss - 1e-12  # a higher loss is a lower bound


def test_a_ring_at_low_similarity_exceeds_the_bound_of_all_negatives(generator):
    """Percentiles 10 to 40 (ring section 3, statement 3): inner = 1 - 0.4, outer = 1 - 0.1."""
    for _ in range(5):
        scores = normal(generator)
        all_losses, ring_losses = pair_losses(scores, ALL), pair_losses(scores, Ring(inner=0.6, outer=0.9))
        assert all(ring[0] < every[0] for ring, every in zip(ring_losses, all_losses, strict=True))


def test_above_the_mean_score_every_single_draw_is_below_the_bound_of_all_negatives(generator):
    """tau > log c, c = E exp f (ring statement 2, mutualinfo 4.1.1): for ring and cave, draw by draw."""
    row_clusters = torch.randint(3, (1, 21), generator=generator, dtype=torch.int32)
    clusters = Clusters(row_clusters, row_clusters[:, OWN])
    cave = Cave(outer=0.3, keep="outside", clusters=3, iterations=1, runs=1)
    held = 0
    for _ in range(20):
        scores = normal(generator)
        nce = pair_losses(scores, ALL)
        for sampler in (Ring(inner=0.05, outer=0.3), cave):
            losses = pair_losses(scores, sampler, clusters)
            for query, rows in enumerate(members(scores, sampler, clusters)):
                others = [row for row in range(21) if row != OWN[query]]
                c, g = scores[query, others].exp().mean(), scores[query, rows].exp()
                if (g > c).all():
                    held += 1
                    assert g.mean() > c  # mutualinfo Thm 4.1
                    assert losses[query][1] >= nce[query][0]
    assert held > 30, "the premise was met too rarely to test anything"


def test_of_random_embeddings_the_closest_quarter_lies_above_the_mean_score_and_a_little_more_does_not():
    """ring section 3, 9: in 128 dimensions at temperature 0.07, scores exceed it from about the 74th percentile."""
    random = torch.Generator().manual_seed(0)
    keys, queries = (torch.randn(count, 128, generator=random, dtype=torch.float64) for count in (40000, 4))
    scores = torch.nn.functional.normalize(queries) @ torch.nn.functional.normalize(keys).T / 0.07
    for outer, above in ((0.25, True), (0.28, False)):
        for query, rows in enumerate(members(scores, Ball(outer))):
            assert (scores[query, rows].exp().min() > scores[query].exp().mean()) == above
