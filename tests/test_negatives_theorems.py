"""What the papers' theorems say of samplers: draws enumerated, for critics of every shape."""

import pytest
import torch
from plain_objectives import sets_of

from annulus.bounds.infonce import infonce
from annulus.negatives.clusters import Clustering, Clusters
from annulus.negatives.samplers import Cave, Ring

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


def seeded():
    return torch.Generator().manual_seed(1)


CRITICS = {
    "normal": lambda g: torch.randn(4, 21, generator=g, dtype=torch.float64),
    "sharp": lambda g: 14 * torch.randn(4, 21, generator=g, dtype=torch.float64),
    "heavy-tailed": lambda g: torch.randn(4, 21, generator=g, dtype=torch.float64).pow(5),
    "skewed": lambda g: torch.rand(4, 21, generator=g, dtype=torch.float64).log(),
    "coarse": lambda g: torch.randint(3, (4, 21), generator=g).double(),
    "constant": lambda g: torch.ones(4, 21, dtype=torch.float64),
}
OWN = torch.tensor([0, 20, 7, 7])
SHARES = [0.05, 0.1, 0.35, 0.8, 1.0]


def losses_of_draws(scores, sampler, clusters=None):
    """Of each query, the mean loss over all m * m equally likely pairs of negatives, and the least loss."""
    found = sampler.draw(scores, OWN, "all", seeded(), 1.0, clusters)
    means, least = [], []
    for query, rows in enumerate(sets_of(found, scores.shape)):
        positive, members = scores[query, OWN[query]], scores[query, rows]
        pairs = torch.cartesian_prod(members, members)
        means.append(infonce(positive.expand(len(pairs), 1), pairs).item())
        # The pairs of one row with itself, the diagonal of all pairs, hold the least.
        least.append(min(infonce(positive[None, None], pair[None]).item() for pair in pairs[:: len(rows) + 1]))
    return means, least


@pytest.mark.parametrize("critic", CRITICS)
@pytest.mark.parametrize("outer", SHARES)
def test_a_ball_bounds_information_no_higher_than_all_negatives_for_every_critic(critic, outer, generator):
    """CNCE <= NCE without a condition (ring section 3, statement 3), the draws enumerated."""
    for _ in range(3):
        scores = CRITICS[critic](generator)
        nce, _ = losses_of_draws(scores, Ring(0.0, 1.0))
        cnce, _ = losses_of_draws(scores, Ring(0.0, outer))
        for of_all, of_ball in zip(nce, cnce, strict=True):
            assert of_ball >= of_all - 1e-12  # a loss: the higher, the lower the bound


def test_a_ring_at_low_similarity_exceeds_the_bound_of_all_negatives(generator):
    """Percentiles 10 to 40 (ring section 3, statement 3): inner = 1 - 0.4, outer = 1 - 0.1."""
    for _ in range(5):
        scores = CRITICS["normal"](generator)
        nce, _ = losses_of_draws(scores, Ring(0.0, 1.0))
        ring, _ = losses_of_draws(scores, Ring(0.6, 0.9))
        for of_all, of_ring in zip(nce, ring, strict=True):
            assert of_ring < of_all


def test_above_the_mean_score_every_single_draw_is_below_the_bound_of_all_negatives(generator):
    """tau > log c, c = E exp f (ring statement 2, mutualinfo 4.1.1): for ring and cave, draw by draw."""
    of_rows = torch.randint(3, (1, 21), generator=generator, dtype=torch.int32)
    clusters = Clusters(of_rows, of_rows[:, OWN])
    cave = Cave(0.3, "outside", Clustering(clusters=3, iterations=1, runs=1))
    held = 0
    for _ in range(20):
        scores = CRITICS["normal"](generator)
        nce, _ = losses_of_draws(scores, Ring(0.0, 1.0))
        for sampler in (Ring(0.05, 0.3), cave):
            _, least = losses_of_draws(scores, sampler, clusters)
            members = sets_of(sampler.draw(scores, OWN, "all", seeded(), 1.0, clusters), scores.shape)
            for query, rows in enumerate(members):
                others = [row for row in range(21) if row != OWN[query]]
                c = scores[query, others].exp().mean()
                g = scores[query, rows].exp()
                if (g > c).all():
                    held += 1
                    assert g.mean() > c  # mutualinfo Thm 4.1
                    assert least[query] >= nce[query]
    assert held > 30, "the premise was met too rarely to test anything"
