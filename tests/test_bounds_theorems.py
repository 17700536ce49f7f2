"""Bounds: the papers' theorems and their limits, by exact expectation where there is one."""

import itertools
import math

import pytest
import torch

from annulus.bounds.alpha import CPC, MLCPC, cpc_warning, mlcpc_ceiling, mlcpc_lower_alpha, mlcpc_warning
from annulus.bounds.bound import present
from annulus.bounds.infonce import InfoNCE, infonce
from annulus.bounds.la import la, la_ceiling

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


@pytest.fixture
def scores(generator):
    """Scores of 6 queries against 1 positive and 7 negatives, of the size that a temperature of 0.07 makes."""
    values = 14 * torch.rand(6, 8, generator=generator, dtype=torch.float64) - 7
    return values[:, :1], values[:, 1:]


def estimate(bound, positives, negatives):
    return bound.estimate(positives, negatives, 0.0, present(negatives), lambda: negatives).bound_nats.item()


def ml_cpc(alpha):
    return MLCPC(alpha, alpha)


# --- alpha on the binary example of mlcpc section 4; test_estimators_binary.py has the closed forms -----

EQUAL = torch.tensor([[0.0, -1e9], [-1e9, 0.0]], dtype=torch.float64)  # log of 1 and nearly 0; -inf would be absent


def expected(bound, n, p, critic=EQUAL):
    """Estimate over the 2^n batches with Pr(1, 1) = p; batches with equal numbers of ones have equal estimates."""
    others, nats = ~torch.eye(n, dtype=torch.bool), 0.0
    for ones in range(n + 1):
        bits = (torch.arange(n) < ones).long()
        scores = critic[bits[:, None], bits]
        chance = math.comb(n, ones) * p**ones * (1 - p) ** (n - ones)
        nats += chance * estimate(bound, scores.diag()[:, None], scores[others].view(n, n - 1))
    return nats


def test_the_binary_example_has_the_values_of_the_table_which_exceed_the_information_below_the_lowest_alpha():
    for alpha, cpc_nats, mlcpc_nats in (
        (1.0, 0.4774, 0.4408),
        (0.5, 0.7174, 0.6082),  # cpc's is above log 2
        (3 / 7, 0.7663, 0.6355),
        (0.1, 1.1805, 0.7756),
    ):
        assert expected(CPC(alpha), 3, 0.5) == pytest.approx(cpc_nats, abs=5e-5)
        assert expected(ml_cpc(alpha), 3, 0.5) == pytest.approx(mlcpc_nats, abs=5e-5)


def test_with_independent_negatives_the_binary_example_has_the_values_stated():
    """Each of three queries has two negatives; each negative equals the query's own with a chance of a half."""
    scores = EQUAL[0, torch.tensor([[0, 0], [0, 1], [1, 1]])]
    for bound, nats in ((CPC(0.5), 0.7174), (ml_cpc(0.5), 0.5879)):
        expectation = 0.0
        for differing in itertools.product(range(3), repeat=3):
            chance = math.prod((0.25, 0.5, 0.25)[count] for count in differing)
            expectation += chance * estimate(bound, torch.zeros(3, 1, dtype=torch.float64), scores[list(differing)])
        assert expectation == pytest.approx(nats, abs=5e-5)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("p", [0.5, 0.03])
def test_cpc_from_1_and_mlcpc_from_alpha_m_n_to_m_are_lower_bounds_and_below_exceed_by_no_more_than_is_said(
    n, p, generator
):
    """mlcpc Thm 2 up to 1, and beyond, for any critic: see cpc_warning and mlcpc_warning."""
    information = -p * math.log(p) - (1 - p) * math.log(1 - p)  # of X = Y
    assert mlcpc_lower_alpha(n, n) == pytest.approx(n / (n * (n - 1) + 1))
    for critic in (EQUAL, 2 * torch.randn(2, 2, generator=generator, dtype=torch.float64)):
        for bound, lowest in ((CPC, 1.0), (ml_cpc, mlcpc_lower_alpha(n, n))):
            for alpha in (0.001, 0.5, lowest, (lowest + 1) / 2, 1.0, (1 + n) / 2, n - 0.01):
                excess = max(0.0, math.log(lowest / alpha))
                assert expected(bound(alpha), n, p, critic) <= information + excess + 1e-6


def test_the_expectation_behind_the_cpc_bounds_is_at_most_the_larger_of_1_and_1_over_alpha(generator):
    """mlcpc Prop. 1 and 2, over the positive's position among m scores; to 1, not 1/alpha, for alpha from 1 to m."""
    for m, scale in itertools.product((2, 10), (0.0, 1.0, 30.0)):
        values = scale * torch.randn(m, generator=generator, dtype=torch.float64)
        for alpha in (0.01, 0.5, 1.0, 1.0 + (m - 1) / 4, m / 2, m - 0.01):
            turned = torch.stack([values.roll(-own) for own in range(m)])
            value = sum(math.exp(estimate(CPC(alpha), row[:, :1], row[:, 1:])) for row in turned.split(1)) / m
            assert value <= max(1.0, 1 / alpha) * (1 + 1e-6)
            if scale == 0:  # equal scores give 1 for each alpha: Prop. 1 ends at alpha 1, not at 2m/(m + 1)
                assert value == pytest.approx(1.0, rel=1e-6)


def test_mlcpc_is_at_most_cpc_against_all_negatives_of_the_batch_with_alpha_over_alpha_m_n(scores):
    """This step in the proof of mlcpc Thm 2 is the basis of mlcpc_warning."""
    everyone = scores[1].flatten().expand(6, -1)
    for alpha in (0.2, 0.5, 1.0, 3.0):
        wide = estimate(CPC(alpha / mlcpc_lower_alpha(8, 6)), scores[0], everyone)
        assert estimate(ml_cpc(alpha), *scores) <= wide + 1e-6


def test_at_the_smallest_alpha_the_ceiling_is_log_of_all_candidates_of_one_query():
    lowest = mlcpc_lower_alpha(16384, 64)
    assert lowest == pytest.approx(0.015626, abs=1e-6)  # mlcpc section 3, 11
    ceiling = mlcpc_ceiling(torch.full((64,), 16383), lowest)
    assert ceiling.item() == pytest.approx(math.log(64 * 16383 + 1), rel=1e-6)
    assert mlcpc_lower_alpha(50, 1) == 1.0


def test_a_warning_has_the_largest_excess_and_is_of_the_end_of_a_curriculum_that_is_no_bound():
    quarter = mlcpc_lower_alpha(16, 8) / 4
    assert "by up to log(1/alpha) = 1.39 nats" in cpc_warning(0.25, 16)
    assert "by up to 1.39 nats" in mlcpc_warning(quarter, 16, 8)
    for ends in ((1.0, quarter), (quarter, 1.0)):
        [warning] = MLCPC(*ends).warnings(15, 8)
        assert warning == mlcpc_warning(quarter, 16, 8)


def test_a_critic_may_be_scaled_per_query_for_cpc_but_only_as_a_whole_for_mlcpc(scores):
    shift = torch.linspace(-3, 3, 6, dtype=torch.float64)[:, None]
    per_query, whole = [part + shift for part in scores], [part + 3 for part in scores]
    for alpha in (0.3, 1.0, 2.0):
        assert estimate(CPC(alpha), *per_query) == pytest.approx(estimate(CPC(alpha), *scores), rel=1e-12)
        whole_nats = estimate(ml_cpc(alpha), *scores)
        assert estimate(ml_cpc(alpha), *whole) == pytest.approx(whole_nats, rel=1e-12)
        assert abs(estimate(ml_cpc(alpha), *per_query) - whole_nats) > 0.01


def test_estimates_of_positives_above_the_mean_negative_fall_as_alpha_rises(scores):
    positives = scores[1].logsumexp(dim=1, keepdim=True)
    for bound in (CPC, ml_cpc):
        values = [estimate(bound(alpha), positives, scores[1]) for alpha in (0.01, 0.1, 0.5, 1.0, 2.0, 7.0)]
        assert values == sorted(values, reverse=True)
        assert values[0] > values[-1] + 1


# --- neighbours ---------------------------------------------------------------------------------------


@pytest.fixture
def background(generator):
    """Scores of 6 queries against 40 rows; the first row is the own one, the first 5 are the close ones."""
    return 14 * torch.rand(6, 40, generator=generator, dtype=torch.float64) - 7


def test_la_is_ring_eq_5_up_to_the_sizes_of_the_sets(background):
    """The partition function of LA cancels (arXiv:2005.13149, Lemma B.3)."""
    close = background[:, :5]
    means = (close.exp().mean(dim=1).log() - background.exp().mean(dim=1).log()).mean()
    ceiling = la_ceiling(present(close), present(background)).double()
    torch.testing.assert_close(ceiling - la(close, background), means, atol=1e-6, rtol=0)
    assert ceiling.item() == pytest.approx(math.log(40 / 5))


def test_la_with_only_itself_as_neighbour_is_infonce_on_the_same_background(background):
    """mutualinfo Lemma 4.3: LA_0 is BALL; further close ones are positives of it."""
    for close in (1, 5):
        plain = infonce(background[:, :close], background[:, close:])
        torch.testing.assert_close(la(background[:, :close], background), plain)


def test_neighbours_raise_the_objective_by_at_most_log_of_their_number_where_the_own_row_is_closest(background):
    """mutualinfo Lemma 4.4, LA_0 >= LA - log|C| for objectives; without the premise it fails."""
    background[:, 0] = background[:, 1:5].max(dim=1).values + 0.1
    for row in background.split(1):
        assert la(row[:, :1], row) <= la(row[:, :5], row) + math.log(5) + 1e-12
    background[:, 0] = background[:, 1:5].min(dim=1).values - 5  # some neighbour is closer than the own row
    assert la(background[:, :1], background) > la(background[:, :5], background) + math.log(5)


def test_summing_neighbours_inside_the_log_is_at_least_their_average_outside(background):
    """Jensen, mutualinfo section 3, 10."""
    outside = torch.stack([la(background[:, i : i + 1], background) for i in range(5)]).mean()
    assert la(background[:, :5], background) + math.log(5) <= outside


# --- information; the effect of samplers for critics of every shape is in test_negatives_theorems.py ------


def test_without_augmentation_images_cannot_be_told_apart(generator):
    """mutualinfo Thm 2.1: permuting embeddings and bank rows together does not change the objective."""
    anchors, rows = torch.randn(2, 7, 4, generator=generator, dtype=torch.float64)

    def objective(order):
        scores = anchors[order] @ rows[order].T
        return infonce(scores.diag()[:, None], scores[~torch.eye(7, dtype=torch.bool)].view(7, 6))

    for _ in range(5):
        torch.testing.assert_close(objective(torch.randperm(7, generator=generator)), objective(torch.arange(7)))


# x and y are uniform over five values; y - x mod 5 has these odds out of 12.
ODDS = torch.tensor([6, 3, 1, 1, 1])
RATIOS = (ODDS * 5 / 12).log().double()  # the ideal critic, log p(x,y) / (p(x) p(y)); the mean of its exp is 1
INFORMATION = (ODDS / 12 * RATIOS).sum().item()


def conditional_estimate(ranks, k=3):
    """CNCE exactly: k negatives drawn evenly from the values of y at these ranks of likeness to x."""
    positives = RATIOS.repeat_interleave(ODDS)
    draws = torch.tensor(list(itertools.product(RATIOS[ranks].tolist(), repeat=k)), dtype=torch.float64)
    return estimate(InfoNCE(), positives.repeat_interleave(len(draws))[:, None], draws.repeat(len(positives), 1))


def test_with_the_ideal_critic_close_negatives_lower_the_estimate_and_far_ones_lift_it_above_the_information():
    """ring Thm 3.1, mutualinfo Coro 4.1.1: CNCE <= NCE <= I where all of the set lies above log E exp f = 0."""
    nce_nats = conditional_estimate([0, 1, 2, 3, 4])
    assert nce_nats < INFORMATION
    for above in ([0], [1], [0, 1]):  # balls of one and two, and a ring between them
        assert (RATIOS[above] > 0).all()
        assert conditional_estimate(above) < nce_nats
    assert conditional_estimate([2, 3]) > nce_nats, "ring section 3, 3: a threshold that is not above 0"
    assert conditional_estimate([2, 3], k=8) > INFORMATION


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_the_estimate_is_below_the_information_and_close_with_the_true_critic(correlation, generator):
    """Two Gaussians with I = -log(1 - r^2) / 2; the critic is their true log density ratio, untrained."""
    variance = 1 - correlation**2
    information = -math.log(variance) / 2

    def critic(x, y):
        return -((y - correlation * x) ** 2) / (2 * variance) + y**2 / 2 - math.log(variance) / 2

    x, noise = torch.randn(2, 20_000, generator=generator, dtype=torch.float64)
    others = torch.randn(20_000, 255, generator=generator, dtype=torch.float64)
    positives, negatives = critic(x, correlation * x + math.sqrt(variance) * noise), critic(x[:, None], others)
    for k in (1, 255):
        assert estimate(InfoNCE(), positives[:, None], negatives[:, :k]) < information + 0.03  # five standard errors
    assert estimate(InfoNCE(), positives[:, None], negatives) == pytest.approx(information, abs=0.03)
