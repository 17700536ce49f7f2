"""Bounds: what the papers prove, and where it ends, by exact expectation where there is one."""

import itertools
import math

import pytest
import torch

from annulus.bounds.alpha import CPC, MLCPC, mlcpc_ceiling, mlcpc_lower_alpha
from annulus.bounds.bound import present
from annulus.bounds.infonce import InfoNCE, infonce
from annulus.bounds.la import la, la_ceiling

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


@pytest.fixture
def scores(generator):
    """Scores of 6 queries against 1 positive and 7 negatives, of the size that a temperature of 0.07 makes."""
    drawn = 14 * torch.rand(6, 8, generator=generator, dtype=torch.float64) - 7
    return drawn[:, :1], drawn[:, 1:]


def estimate(bound, positives, negatives):
    return bound.estimate(positives, negatives, 0.0, present(negatives), lambda: negatives).bound_nats.item()


def estimate_infonce(positives, negatives):
    return estimate(InfoNCE(), positives, negatives)


def estimate_cpc(positives, negatives, alpha):
    return estimate(CPC(alpha), positives, negatives)


def estimate_mlcpc(positives, negatives, alpha):
    return estimate(MLCPC(alpha, alpha), positives, negatives)


# --- alpha on the binary example of mlcpc section 4 ---------------------------------------------------

EQUAL = torch.tensor([[0.0, -1e9], [-1e9, 0.0]], dtype=torch.float64)  # log of 1 and nearly 0; -inf would be absent


def expected(estimate, n, p, alpha, critic=EQUAL):
    """Over the 2^n batches with Pr(1, 1) = p, of which those with as many ones have the same estimate."""
    others, nats = ~torch.eye(n, dtype=torch.bool), 0.0
    for ones in range(n + 1):
        bits = (torch.arange(n) < ones).long()
        scores = critic[bits[:, None], bits]
        chance = math.comb(n, ones) * p**ones * (1 - p) ** (n - ones)
        nats += chance * estimate(scores.diag()[:, None], scores[others].view(n, n - 1), alpha)
    return nats


def entropy(p):
    """The information of X = Y."""
    return -p * math.log(p) - (1 - p) * math.log(1 - p)


@pytest.mark.parametrize(
    ("alpha", "cpc_nats", "mlcpc_nats"),
    [(1.0, 0.4774, 0.4408), (0.5, 0.7174, 0.6082), (3 / 7, 0.7663, 0.6355), (0.1, 1.1805, 0.7756)],
)
def test_the_binary_example_has_the_values_of_the_table(alpha, cpc_nats, mlcpc_nats):
    """mlcpc section 4; test_estimators_binary.py has the closed forms."""
    assert expected(estimate_cpc, 3, 0.5, alpha) == pytest.approx(cpc_nats, abs=5e-5)
    assert expected(estimate_mlcpc, 3, 0.5, alpha) == pytest.approx(mlcpc_nats, abs=5e-5)


def test_with_independent_negatives_the_binary_example_has_the_values_stated():
    """Of three queries with two negatives each, which are equal to the query's own with a chance of a half."""
    scores = EQUAL[0, torch.tensor([[0, 0], [0, 1], [1, 1]])]
    for estimate, nats in ((estimate_cpc, 0.7174), (estimate_mlcpc, 0.5879)):
        found = 0.0
        for differing in itertools.product(range(3), repeat=3):
            chance = math.prod((0.25, 0.5, 0.25)[count] for count in differing)
            found += chance * estimate(torch.zeros(3, 1, dtype=torch.float64), scores[list(differing)], 0.5)
        assert found == pytest.approx(nats, abs=5e-5)


def test_cpc_with_alpha_a_half_exceeds_the_information_and_mlcpc_does_not():
    assert expected(estimate_cpc, 3, 0.5, 0.5) > math.log(2) > expected(estimate_mlcpc, 3, 0.5, 0.5)
    assert expected(estimate_mlcpc, 3, 0.5, 0.1) > math.log(2)  # below alpha_{3,3} it does too


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("p", [0.5, 0.03])
def test_mlcpc_is_a_lower_bound_from_alpha_m_n_to_m_whatever_the_critic(n, p, generator):
    """Thm 2 up to 1, and beyond: see cpc_warning. Below, by no more than mlcpc_warning says."""
    lowest = mlcpc_lower_alpha(n, n)
    assert lowest == pytest.approx(n / (n * (n - 1) + 1))
    for critic in (EQUAL, 2 * torch.randn(2, 2, generator=generator, dtype=torch.float64)):
        for alpha in (lowest, (lowest + 1) / 2, 1.0, (1 + n) / 2, n - 0.01):
            assert expected(estimate_mlcpc, n, p, alpha, critic) <= entropy(p) + 1e-6
        for alpha in (0.01, 0.5):
            excess = max(0.0, math.log(lowest / alpha))
            assert expected(estimate_mlcpc, n, p, alpha, critic) <= entropy(p) + excess + 1e-6


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("p", [0.5, 0.03])
def test_cpc_is_a_lower_bound_from_1_to_m_and_below_exceeds_information_by_no_more_than_log_1_over_alpha(
    n, p, generator
):
    for critic in (EQUAL, 2 * torch.randn(2, 2, generator=generator, dtype=torch.float64)):
        for alpha in (1.0, (1 + n) / 2, n - 0.01):  # above m/2 too
            assert expected(estimate_cpc, n, p, alpha, critic) <= entropy(p) + 1e-6
        for alpha in (0.001, 0.5):
            assert expected(estimate_cpc, n, p, alpha, critic) <= entropy(p) + math.log(1 / alpha) + 1e-6


@pytest.mark.parametrize("m", [2, 3, 10])
@pytest.mark.parametrize("scale", [0.0, 1.0, 30.0])
def test_the_expectation_behind_the_cpc_bounds_is_at_most_the_larger_of_1_and_1_over_alpha(m, scale, generator):
    """mlcpc Prop. 1 and 2, over which of m scores is the positive; to 1, not 1/alpha, for alpha from 1 to m."""
    for _ in range(2):
        drawn = scale * torch.randn(m, generator=generator, dtype=torch.float64)
        for alpha in (0.01, 0.5, 1.0, 1.0 + (m - 1) / 4, m / 2, 0.9 * m, m - 0.01):
            ratios = []
            for own in range(m):
                others = torch.cat([drawn[:own], drawn[own + 1 :]])
                ratios.append(math.exp(estimate_cpc(drawn[None, own : own + 1], others[None], alpha)))
            value = sum(ratios) / m
            assert value <= max(1.0, 1 / alpha) * (1 + 1e-6)
            if scale == 0:  # equal scores: 1 for each alpha, so that Prop. 1 ends at alpha 1, not at 2m/(m + 1)
                assert value == pytest.approx(1.0, rel=1e-6)


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 3.0])
def test_mlcpc_is_at_most_cpc_against_all_negatives_of_the_batch_with_alpha_over_alpha_m_n(alpha, scores):
    """The step in the proof of mlcpc Thm 2, which mlcpc_warning rests on."""
    n, m = 6, 8
    everyone = scores[1].flatten().expand(n, -1)
    wide = estimate_cpc(scores[0], everyone, alpha / mlcpc_lower_alpha(m, n))
    assert estimate_mlcpc(*scores, alpha) <= wide + 1e-6


def test_at_the_smallest_alpha_the_ceiling_is_log_of_all_candidates_of_one_query():
    lowest = mlcpc_lower_alpha(16384, 64)
    assert lowest == pytest.approx(0.015626, abs=1e-6)  # mlcpc section 3, 11
    ceiling = mlcpc_ceiling(torch.full((64,), 16383), lowest)
    assert ceiling.item() == pytest.approx(math.log(64 * 16383 + 1), rel=1e-6)
    assert mlcpc_lower_alpha(50, 1) == 1.0


def test_a_critic_may_be_scaled_per_query_for_cpc_but_only_as_a_whole_for_mlcpc(scores):
    shift = torch.linspace(-3, 3, 6, dtype=torch.float64)[:, None]
    per_query, whole = [part + shift for part in scores], [part + 3 for part in scores]
    for alpha in (0.3, 1.0, 2.0):
        assert estimate_cpc(*per_query, alpha) == pytest.approx(estimate_cpc(*scores, alpha), rel=1e-12)
        assert estimate_mlcpc(*whole, alpha) == pytest.approx(estimate_mlcpc(*scores, alpha), rel=1e-12)
        assert abs(estimate_mlcpc(*per_query, alpha) - estimate_mlcpc(*scores, alpha)) > 0.01


def test_estimates_of_positives_above_the_mean_negative_fall_as_alpha_rises(scores):
    positives = scores[1].logsumexp(dim=1, keepdim=True)
    for estimate in (estimate_cpc, estimate_mlcpc):
        values = [estimate(positives, scores[1], alpha) for alpha in (0.01, 0.1, 0.5, 1.0, 2.0, 7.0)]
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1] + 1


# --- neighbours ---------------------------------------------------------------------------------------


@pytest.fixture
def background(generator):
    """Scores of 6 queries against 40 rows, the first being the own one and the first 5 the close ones."""
    return 14 * torch.rand(6, 40, generator=generator, dtype=torch.float64) - 7


def test_la_is_ring_eq_5_but_for_the_sizes_of_the_sets(background):
    close = background[:, :5]
    means = (close.exp().mean(dim=1).log() - background.exp().mean(dim=1).log()).mean()
    sizes = present(close), present(background)
    torch.testing.assert_close(la_ceiling(*sizes).double() - la(close, background), means, atol=1e-6, rtol=0)
    torch.testing.assert_close(la_ceiling(*sizes).item(), math.log(40 / 5), atol=1e-6, rtol=0)


@pytest.mark.parametrize("log_partition", [-3.0, 0.0])
def test_the_partition_function_of_the_original_la_cancels(log_partition, background):
    """arXiv:2005.13149, Lemma B.3: with p(i) = exp(score)/Z summed one by one, -(log p(C) - log p(B)) is `la`."""
    p = (background - log_partition).exp()
    plain = [-(math.log(sum(row[:5])) - math.log(sum(row))) for row in p.tolist()]
    assert la(background[:, :5], background).item() == pytest.approx(sum(plain) / 6, rel=1e-12)


def test_la_with_only_itself_as_neighbour_is_infonce_on_the_same_background(background):
    """mutualinfo Lemma 4.3: LA_0 is BALL; with more close ones they are its positives."""
    for close in (1, 5):
        ours, plain = la(background[:, :close], background), infonce(background[:, :close], background[:, close:])
        torch.testing.assert_close(ours, plain)


def test_neighbours_raise_the_objective_by_at_most_log_of_their_number_where_the_own_row_is_closest(background):
    """mutualinfo Lemma 4.4, LA_0 >= LA - log|C| for objectives; without the premise it fails."""
    ordered = background.clone()
    ordered[:, 0] = background[:, :5].max(dim=1).values + 0.1
    for row in ordered.split(1):
        assert la(row[:, :1], row) <= la(row[:, :5], row) + math.log(5) + 1e-12
    reversed_ = background.clone()
    reversed_[:, 0] = background[:, 1:5].min(dim=1).values - 5  # some neighbour is closer than the own row
    assert la(reversed_[:, :1], reversed_) > la(reversed_[:, :5], reversed_) + math.log(5)


def test_summing_neighbours_inside_the_log_is_at_least_their_average_outside(background):
    """Jensen, mutualinfo section 3, 10."""
    inside = la(background[:, :5], background) + math.log(5)
    outside = torch.stack([la(background[:, i : i + 1], background) for i in range(5)]).mean()
    assert inside <= outside


# --- information --------------------------------------------------------------------------------------


def test_without_augmentation_images_cannot_be_told_apart(generator):
    """mutualinfo Thm 2.1: permuting embeddings and bank rows together leaves the objective as it is."""
    anchors = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    rows = torch.randn(7, 4, generator=generator, dtype=torch.float64)

    def objective(order):
        scores = anchors[order] @ rows[order].T
        others = scores[~torch.eye(7, dtype=torch.bool)].view(7, 6)
        return infonce(scores.diag()[:, None], others)

    expected = objective(torch.arange(7))
    for _ in range(5):
        torch.testing.assert_close(objective(torch.randperm(7, generator=generator)), expected)


# x and y are one of five each, y - x mod 5 has these odds out of 12, and both are uniform.
ODDS = torch.tensor([6, 3, 1, 1, 1])
RATIOS = (ODDS * 5 / 12).log().double()  # the ideal critic, log p(x,y) / (p(x) p(y)); the mean of its exp is 1
INFORMATION = (ODDS / 12 * RATIOS).sum().item()


def conditional_estimate(ranks, critic=RATIOS, k=3):
    """CNCE exactly: k negatives drawn evenly from the values of y at these ranks of likeness to x."""
    positives = critic.repeat_interleave(ODDS)
    draws = torch.tensor(list(itertools.product(critic[ranks].tolist(), repeat=k)), dtype=torch.float64)
    return estimate_infonce(positives.repeat_interleave(len(draws))[:, None], draws.repeat(len(positives), 1))


def test_with_the_ideal_critic_closer_negatives_lower_the_estimate():
    """ring Thm 3.1, mutualinfo Coro 4.1.1: CNCE <= NCE <= I where all of the set lies above log E exp f = 0."""
    nce_nats = conditional_estimate([0, 1, 2, 3, 4])
    assert nce_nats < INFORMATION
    for above in ([0], [1], [0, 1]):  # balls of one and two, and a ring between them
        assert (RATIOS[above] > 0).all()
        assert conditional_estimate(above) < nce_nats


@pytest.mark.parametrize("seed", range(5))
def test_a_ball_never_exceeds_the_estimate_from_all_negatives_whatever_its_radius_and_the_critic(seed):
    """mutualinfo section 3, on 4: no condition on the threshold is needed."""
    generator = torch.Generator().manual_seed(seed)
    critic = 2 * torch.randn(5, generator=generator, dtype=torch.float64)
    ranked = critic.argsort(descending=True).tolist()
    balls = [conditional_estimate(ranked[:size], critic) for size in (1, 2, 3, 4, 5)]
    assert balls == sorted(balls)
    assert balls[-1] < INFORMATION


def test_a_ring_at_low_similarity_exceeds_the_estimate_from_all_negatives_and_the_information():
    """ring section 3, 3: its threshold is not above log E exp f, which Thm 3.1 needs."""
    assert conditional_estimate([2, 3]) > conditional_estimate([0, 1, 2, 3, 4])
    assert conditional_estimate([2, 3], k=8) > INFORMATION


@pytest.mark.parametrize("k", [1, 255])
@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_estimate_is_below_the_information_and_close_with_the_true_critic(k, correlation, generator):
    """Two Gaussians with I = -log(1 - r^2) / 2; the critic is their true log density ratio, untrained."""
    information = -math.log(1 - correlation**2) / 2

    def critic(x, y):
        variance = 1 - correlation**2
        return -((y - correlation * x) ** 2) / (2 * variance) + y**2 / 2 - math.log(variance) / 2

    x = torch.randn(20_000, generator=generator, dtype=torch.float64)
    noise = torch.randn(20_000, generator=generator, dtype=torch.float64)
    y = correlation * x + math.sqrt(1 - correlation**2) * noise
    others = torch.randn(20_000, k, generator=generator, dtype=torch.float64)
    estimate = estimate_infonce(critic(x, y)[:, None], critic(x[:, None], others))
    assert estimate < information + 0.03  # five standard errors
    if k == 255:
        assert estimate == pytest.approx(information, abs=0.03)


def test_restricting_negatives_to_low_scores_breaks_the_bound():
    """ring A.1 (statement 5): x and y independent, so no information, yet an estimate near log(1 + k)."""
    scores = torch.linspace(-7, 7, 1001, dtype=torch.float64)  # f(x, y) of independent pairs
    lowest = scores[:10]  # q on the lowest 1 %
    draws = torch.tensor(list(itertools.combinations_with_replacement(lowest.tolist(), 3)), dtype=torch.float64)
    positive, negatives = scores.repeat_interleave(len(draws)), draws.repeat(len(scores), 1)
    assert 1.0 < estimate_infonce(positive[:, None], negatives) <= math.log(4) + 1e-6
