"""Bounds as estimates: loops from the papers, the truth as their limit, and what each promises of every critic.

Expectations are exact wherever a table can be listed whole; else they come with their Monte Carlo error.
"""

import itertools
import math

import pytest
import torch

from annulus.bounds.alpha import mlcpc_lower_alpha
from annulus.errors import InputError
from annulus.estimators.bounds import (
    CPC,
    MLCPC,
    NWJ,
    BarberAgakov,
    DonskerVaradhan,
    EqCo,
    InfoNCE,
    mine_objective,
    off_diagonal,
)
from annulus.estimators.critics import Ideal
from annulus.estimators.toys import CorrelatedGaussians, DiscreteTable, binary_pair
from annulus.negatives.samplers import Ring

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

N, K = 4, 5


@pytest.fixture(autouse=True)
def in_float64():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def scores(generator):
    """Of the size that a temperature of 0.07 makes."""
    drawn = 14 * torch.rand(N, 1 + K, generator=generator) - 7
    return drawn[:, 0], drawn[:, 1:]


# --- slow and plain: g = exp(score), row by row --------------------------------------------------------


def g(scores):
    return [[math.exp(score) for score in row] for row in scores.tolist()]


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def plain_cpc(positive, negatives, alpha):
    """mlcpc eq. 4."""
    m = 1 + negatives.shape[1]
    beta = (m - alpha) / (m - 1)
    rows = zip(g(positive[:, None]), g(negatives), strict=True)
    return mean(math.log(m * own / (alpha * own + beta * sum(others))) for (own,), others in rows)


def plain_infonce(positive, negatives):
    """mlcpc eq. 2."""
    return plain_cpc(positive, negatives, 1.0)


def plain_mlcpc(positive, negatives, alpha):
    """mlcpc eq. 6."""
    n, m = len(positive), 1 + negatives.shape[1]
    beta = (m - alpha) / (m - 1)
    own = [row[0] for row in g(positive[:, None])]
    denominator = alpha * sum(own) + beta * sum(sum(row) for row in g(negatives))
    return mean(math.log(n * m * score / denominator) for score in own)


def plain_eqco(positive, negatives, alpha):
    """eqco eq. 10, taken off log(1 + alpha)."""
    k = negatives.shape[1]
    rows = zip(g(positive[:, None]), g(negatives), strict=True)
    return math.log(1 + alpha) - mean(-math.log(own / (own + alpha / k * sum(others))) for (own,), others in rows)


def plain_nwj(positive, negatives):
    """mutualinfo section 2."""
    return mean(positive.tolist()) - mean(math.exp(score - 1) for row in negatives.tolist() for score in row)


def plain_dv(positive, negatives):
    """Donsker and Varadhan 1983."""
    return mean(positive.tolist()) - math.log(mean(score for row in g(negatives) for score in row))


NORMALISER = torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64)


def plain_ba(positive, negatives):
    """mutualinfo section 2: E[f - log Z(y)]."""
    return mean(f - log_z for f, log_z in zip(positive.tolist(), NORMALISER.tolist(), strict=True))


BOUNDS = {
    "InfoNCE": (InfoNCE(), plain_infonce),
    "EqCo, alpha 40": (EqCo(40.0), lambda *scores: plain_eqco(*scores, 40.0)),
    "EqCo, alpha 0.5": (EqCo(0.5), lambda *scores: plain_eqco(*scores, 0.5)),
    "CPC, alpha 0.3": (CPC(0.3), lambda *scores: plain_cpc(*scores, 0.3)),
    "CPC, alpha 2.5": (CPC(2.5), lambda *scores: plain_cpc(*scores, 2.5)),
    "ML-CPC, alpha 0.3": (MLCPC(0.3), lambda *scores: plain_mlcpc(*scores, 0.3)),
    "ML-CPC, alpha 2.5": (MLCPC(2.5), lambda *scores: plain_mlcpc(*scores, 2.5)),
    "NWJ": (NWJ(), plain_nwj),
    "DV": (DonskerVaradhan(), plain_dv),
    "unnormalised BA": (BarberAgakov(NORMALISER), plain_ba),
}
every_bound = pytest.mark.parametrize(("bound", "plain"), BOUNDS.values(), ids=BOUNDS)
SOFTMAX = [name for name in BOUNDS if name not in ("NWJ", "DV", "unnormalised BA")]


@every_bound
def test_every_estimate_equals_the_plain_loop(bound, plain, scores):
    assert bound.estimate(*scores).item() == pytest.approx(plain(*scores), rel=1e-12)


@pytest.mark.parametrize("name", BOUNDS)
def test_every_bound_s_name_says_what_it_is(name):
    assert BOUNDS[name][0].name == name


@every_bound
def test_gradients_agree_with_finite_differences(bound, plain, scores):
    leaves = [part.clone().requires_grad_() for part in scores]
    assert torch.autograd.gradcheck(bound.estimate, leaves)


@every_bound
def test_a_higher_positive_raises_an_estimate_and_a_higher_negative_never_does(bound, plain, scores):
    """But for ML-CPC's, whose one denominator holds all positives: there a high one may lower it."""
    positive, negatives = (part.clone().requires_grad_() for part in scores)
    (bound.estimate(positive, negatives) + 0 * negatives.sum()).backward()
    assert (negatives.grad <= 0).all()
    if not isinstance(bound, MLCPC):
        assert (positive.grad > 0).all()
    assert positive.grad.sum() > 0


# --- what the batch's other pairs score ---------------------------------------------------------------


@pytest.mark.parametrize("n", [2, 3, 7])
def test_off_diagonal_is_each_row_without_its_own_column(n, generator):
    scores = torch.randn(n, n, generator=generator)
    for matrix in (scores, scores.T):
        expected = [[matrix[i, j].item() for j in range(n) if j != i] for i in range(n)]
        assert off_diagonal(matrix).tolist() == expected


def test_off_diagonal_gives_the_diagonal_no_gradient():
    scores = torch.randn(4, 4, generator=torch.Generator().manual_seed(1), requires_grad=True)
    (2 * off_diagonal(scores)).sum().backward()
    assert torch.equal(scores.grad, 2 - 2 * torch.eye(4))


@pytest.mark.parametrize("n", [0, 1])
def test_a_batch_without_another_pair_is_refused_with_the_way_out(n):
    sentence = rf"^m = {n}: a batch of {n} pairs has no negatives; take at least 2 pairs$"
    with pytest.raises(InputError, match=sentence):
        off_diagonal(torch.zeros(n, n))


# --- ceilings -----------------------------------------------------------------------------------------


def test_ceilings_are_those_that_the_papers_state():
    assert InfoNCE().ceiling(7, 127) == pytest.approx(math.log(128))
    assert EqCo(512.0).ceiling(7, 63) == EqCo(512.0).ceiling(64, 511) == pytest.approx(math.log(513))
    for bound in (CPC, MLCPC):
        for alpha in (1.0, 0.01, 2.0):
            assert bound(alpha).ceiling(128, 127) == pytest.approx(math.log(128 / alpha))
    # mlcpc section 3, 2: at the lowest proven alpha log(n (m - 1) + 1).
    lowest = mlcpc_lower_alpha(128, 64)
    assert MLCPC(lowest).ceiling(64, 127) == pytest.approx(math.log(64 * 127 + 1))
    for bound in (NWJ(), DonskerVaradhan(), BarberAgakov(NORMALISER)):
        assert bound.ceiling(4, 5) == math.inf


@pytest.mark.parametrize("name", SOFTMAX)
@pytest.mark.parametrize("lead", [0.0, 3.0, 30.0, 1e4])
def test_no_critic_takes_an_estimate_above_its_ceiling(name, lead, generator):
    bound = BOUNDS[name][0]
    for noise in (0.1, 1.0, 30.0):
        for n, k in ((1, 3), (2, 30), (20, 3)):
            positive = lead + noise * torch.randn(n, generator=generator)
            negatives = noise * torch.randn(n, k, generator=generator)
            assert bound.estimate(positive, negatives) <= bound.ceiling(n, k) + 1e-11 * (1 + lead)
    assert bound.estimate(torch.full((4,), lead), torch.full((4, 3), lead - 60)).item() == pytest.approx(
        bound.ceiling(4, 3), abs=1e-9
    )


@every_bound
def test_where_all_scores_are_equal_the_estimate_is_nothing(bound, plain):
    """Of the ones that take a constant off; NWJ has its own, 1, and Barber-Agakov's log Z is the score here."""
    score = 1.0
    if isinstance(bound, BarberAgakov):
        bound = BarberAgakov(torch.full((N,), score))
    found = bound.estimate(torch.full((N,), score), torch.full((N, K), score))
    assert found.item() == pytest.approx(0, abs=1e-12)


# --- exactly: a table of a few values -----------------------------------------------------------------

ODDS = torch.tensor([[7, 2], [3, 8]])  # of 20
TABLE = DiscreteTable(ODDS.double() / 20)
ONE_HOT = torch.eye(2, dtype=torch.float64)
IDEAL = Ideal(TABLE)(ONE_HOT, ONE_HOT)
RANDOM = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
CRITICS = [IDEAL, *(RANDOM * torch.tensor([1, 3, 10])[:, None, None])]


def expected_in_batch(bound, critic, n, table=TABLE):
    """The mean over all batches of n pairs, whose other pairs' y are the negatives."""
    cells = [(a, b, table.joint[a, b].item()) for a in range(2) for b in range(2) if table.joint[a, b] > 0]
    total = 0.0
    for batch in itertools.product(cells, repeat=n):
        a, b = ([cell[side] for cell in batch] for side in (0, 1))
        scores = critic[a][:, b]
        total += math.prod(cell[2] for cell in batch) * bound.estimate(scores.diagonal(), off_diagonal(scores)).item()
    return total


def expected_independent(bound, critic, n, k):
    """The same with k negatives of each pair's own, drawn from p(y)."""
    cells = [(a, b, TABLE.joint[a, b].item()) for a in range(2) for b in range(2)]
    of_y = TABLE.joint.sum(dim=0).tolist()
    rows = [
        (critic[a, b], critic[a, list(others)], p * math.prod(of_y[other] for other in others))
        for a, b, p in cells
        for others in itertools.product(range(2), repeat=k)
    ]
    total = 0.0
    for batch in itertools.product(rows, repeat=n):
        estimate = bound.estimate(torch.stack([row[0] for row in batch]), torch.stack([row[1] for row in batch]))
        total += math.prod(row[2] for row in batch) * estimate.item()
    return total


LOWER_IN_BATCH = {  # at n = m = 3
    "InfoNCE": InfoNCE(),
    "CPC, alpha 1.4": CPC(1.4),
    "CPC, alpha 2.9": CPC(2.9),
    "EqCo, alpha 0.5": EqCo(0.5),
    "EqCo, alpha 2": EqCo(2.0),
    "ML-CPC, lowest": MLCPC(mlcpc_lower_alpha(3, 3)),
    "ML-CPC, alpha 1": MLCPC(1.0),
    "ML-CPC, alpha 2.9": MLCPC(2.9),
}


@pytest.mark.parametrize("bound", LOWER_IN_BATCH.values(), ids=LOWER_IN_BATCH)
@pytest.mark.parametrize("critic", CRITICS, ids=["ideal", "small", "middle", "large"])
def test_a_lower_bound_is_below_the_information_for_every_critic(bound, critic):
    assert bound.warning(3, 2) is None
    assert expected_in_batch(bound, critic, 3) <= TABLE.information + 1e-12


@pytest.mark.parametrize(
    ("bound", "n", "k"),
    [(InfoNCE(), 1, 4), (CPC(1.4), 1, 4), (EqCo(3.0), 1, 4), (MLCPC(3 / 5), 2, 2), (MLCPC(1.0), 2, 2)],
)
@pytest.mark.parametrize("critic", CRITICS, ids=["ideal", "small", "middle", "large"])
def test_so_it_is_with_negatives_of_its_own_and_the_ideal_critic_comes_closest(bound, n, k, critic):
    assert bound.warning(n, k) is None
    found = expected_independent(bound, critic, n, k)
    assert found <= TABLE.information + 1e-12
    if not isinstance(bound, MLCPC):
        assert found <= expected_independent(bound, IDEAL, n, k) + 1e-12


@pytest.mark.parametrize("bound", [InfoNCE(), MLCPC(1.0)])
def test_more_negatives_bring_the_ideal_critic_s_estimate_closer_to_the_information(bound):
    nats = [expected_independent(bound, IDEAL, 1, k) for k in (1, 2, 4, 8)]
    assert nats == sorted(nats)
    assert TABLE.information - nats[-1] < (TABLE.information - nats[0]) / 4


def whole(critic):
    """Positives and negatives in their exact proportions: the mean over them is the expectation."""
    positive = critic.flatten().repeat_interleave(ODDS.flatten())
    product = (ODDS.sum(dim=1, keepdim=True) * ODDS.sum(dim=0)).flatten()  # of 400
    return positive, critic.flatten().repeat_interleave(product).view(20, 20)


def log_normaliser(critic):
    """log E_p(x) exp f(x, y) of each y."""
    of_x = TABLE.joint.sum(dim=1, keepdim=True)
    return (of_x * critic.exp()).sum(dim=0).log()


def exactly(bound, critic):
    """The expectation of NWJ, Donsker-Varadhan's or Barber-Agakov's bound."""
    positive, negatives = whole(critic)
    if bound is BarberAgakov:
        of_y = torch.arange(2).expand(2, 2).flatten().repeat_interleave(ODDS.flatten())
        return BarberAgakov(log_normaliser(critic)[of_y]).estimate(positive, negatives).item()
    return bound().estimate(positive, negatives).item()


def test_with_its_own_ideal_critic_a_bound_without_ceiling_is_the_information():
    """NWJ's is 1 + log ratio; Donsker-Varadhan's may have any constant, Barber-Agakov's any function of y."""
    exact = pytest.approx(TABLE.information, abs=1e-12)
    assert exactly(NWJ, 1 + IDEAL) == exact
    for constant in (0.0, -17.0):
        assert exactly(DonskerVaradhan, IDEAL + constant) == exact
    for of_y in (0.0, torch.tensor([3.0, -8.0])):
        assert exactly(BarberAgakov, IDEAL + of_y) == exact


@pytest.mark.parametrize("bound", [NWJ, DonskerVaradhan, BarberAgakov])
def test_with_any_other_critic_it_is_below_and_nwj_is_never_above_donsker_varadhan(bound):
    """Poole et al. 2019, section 2: x >= 1 + log x, and Z(y) against one Z for all y."""
    for critic in (*CRITICS[1:], 1.5 * IDEAL, IDEAL + torch.tensor([[2.0, 0.0], [0.0, -2.0]])):
        assert exactly(bound, critic) < TABLE.information - 1e-3
        assert exactly(NWJ, 1 + critic) <= exactly(DonskerVaradhan, critic) <= exactly(BarberAgakov, critic) + 1e-12


def test_nwj_with_a_softmax_s_witness_is_infonce(scores):
    """mutualinfo section 2: 1 + log(exp f / a), with a the mean over the K = 1 + k candidates."""
    positive, negatives = scores
    candidates = torch.cat([positive[:, None], negatives], dim=1)
    witness = 1 + candidates - (candidates.logsumexp(dim=1, keepdim=True) - math.log(1 + K))
    found = NWJ().estimate(witness[:, 0], witness)  # the mean of exp(witness - 1) is 1
    assert found.item() == pytest.approx(InfoNCE().estimate(positive, negatives).item(), rel=1e-12)


# --- above the information, as the warnings say -------------------------------------------------------

EQUAL = Ideal(binary_pair(0.5))(ONE_HOT, ONE_HOT)


def on_binary(bound, m):
    return expected_in_batch(bound, EQUAL, m, binary_pair(0.5))


def test_cpc_with_alpha_a_half_exceeds_log_2_and_mlcpc_with_its_lowest_alpha_does_not():
    """mlcpc section 4, m = 3."""
    assert on_binary(CPC(0.5), 3) == pytest.approx(0.7174, abs=5e-5)
    assert on_binary(CPC(0.5), 3) > math.log(2) > on_binary(MLCPC(3 / 7), 3)
    assert CPC(0.5).warning(3, 2) is not None
    assert MLCPC(3 / 7).warning(3, 2) is None


def test_mlcpc_below_its_lowest_alpha_and_eqco_above_its_negatives_exceed_it_too():
    assert on_binary(MLCPC(0.1), 3) == pytest.approx(0.7756, abs=5e-5)
    assert on_binary(EqCo(5.0), 3) == pytest.approx(0.7174, abs=5e-5)  # CPC of alpha 3/6
    for bound in (MLCPC(0.1), EqCo(5.0)):
        assert on_binary(bound, 3) > math.log(2)
        assert bound.warning(3, 2) is not None


@pytest.mark.parametrize(
    ("bound", "n", "k", "parts"),
    [
        (EqCo(512.0), 64, 63, ["EqCo with alpha 512", "63 negatives", f"{math.log(513 / 64):.3g} nats"]),
        (CPC(0.5), 3, 2, ["cpc with alpha 0.5", "not a lower bound", "0.693 nats", "1.79 nats"]),
        (MLCPC(0.1), 3, 2, ["mlcpc with alpha 0.1", "0.4286 for n = 3 queries of m = 3", "1.46 nats"]),
        (MLCPC(0.1), 5, 2, [f"{3 / 11:.4g} for n = 5 queries of m = 3", "1 nats"]),
        (DonskerVaradhan(), 4, 5, ["Donsker-Varadhan", "20 scores", "may exceed the information"]),
    ],
)
def test_a_warning_says_what_is_lost_and_by_how_much(bound, n, k, parts):
    warning = bound.warning(n, k)
    for part in parts:
        assert part in warning


@pytest.mark.parametrize(
    "bound",
    [InfoNCE(), EqCo(2.0), EqCo(0.1), CPC(1.0), CPC(2.9), MLCPC(3 / 7), MLCPC(2.9), NWJ(), BarberAgakov(NORMALISER)],
)
def test_where_nothing_is_lost_there_is_no_warning(bound):
    assert bound.warning(3, 2) is None


@pytest.mark.parametrize("bound", [CPC(0.2), CPC(0.5), MLCPC(0.05), MLCPC(0.2), EqCo(5.0), EqCo(30.0)])
def test_no_estimate_exceeds_the_information_by_more_than_its_warning_says(bound):
    said = bound.warning(3, 2).split("by up to ")[1].split(" nats")[0].split("= ")[-1]
    for critic in (EQUAL, *CRITICS):
        for table in (TABLE, binary_pair(0.5)):
            assert expected_in_batch(bound, critic, 3, table) <= table.information + float(said) + 5e-3


@pytest.mark.parametrize("bound", [CPC, MLCPC])
@pytest.mark.parametrize("alpha", [0.0, -0.5, 6.0, 7.5])
def test_an_alpha_outside_zero_to_m_is_refused_with_the_way_out(bound, alpha, scores):
    sentence = rf"alpha is {alpha:g} with m = 6 candidates.*above 0 and below m: choose alpha 1"
    with pytest.raises(InputError, match=sentence):
        bound(alpha).estimate(*scores)


@pytest.mark.parametrize("alpha", [0.0, -3.0, math.inf])
def test_an_eqco_alpha_that_is_no_number_of_negatives_is_refused(alpha, scores):
    with pytest.raises(InputError, match=rf"eqco_alpha is {alpha:g}; it is a number of negatives and must be above 0"):
        EqCo(alpha).estimate(*scores)


# --- one in terms of another --------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.3, 2.0, 5.0, 512.0])
def test_eqco_is_cpc_with_alpha_k_plus_1_over_alpha_plus_1(alpha, scores):
    """eqco section 3, 9."""
    expected = CPC((K + 1) / (alpha + 1))
    assert EqCo(alpha).estimate(*scores).item() == pytest.approx(expected.estimate(*scores).item(), rel=1e-12)
    assert EqCo(alpha).ceiling(N, K) == pytest.approx(expected.ceiling(N, K))
    assert (EqCo(alpha).warning(N, K) is None) == (expected.warning(N, K) is None)


def test_eqco_of_as_many_negatives_as_there_are_and_cpc_of_alpha_1_are_infonce(scores):
    found = InfoNCE().estimate(*scores)
    torch.testing.assert_close(EqCo(float(K)).estimate(*scores), found, rtol=1e-12, atol=0)
    torch.testing.assert_close(CPC(1.0).estimate(*scores), found, rtol=1e-12, atol=0)


def test_of_one_query_mlcpc_is_cpc(scores):
    one = scores[0][:1], scores[1][:1]
    for alpha in (0.2, 1.0, 3.0):
        torch.testing.assert_close(MLCPC(alpha).estimate(*one), CPC(alpha).estimate(*one), rtol=1e-12, atol=0)


@pytest.mark.parametrize("name", SOFTMAX)
def test_scales_of_the_critic_that_change_nothing(name, scores):
    """mlcpc section 3, 10: g -> c(x) g, a constant per row of scores; ML-CPC only g -> c g."""
    bound, (positive, negatives) = BOUNDS[name][0], scores
    before, by_row = bound.estimate(*scores).item(), torch.tensor([3.0, -1.0, 0.5, 8.0])
    assert bound.estimate(positive + 9, negatives + 9).item() == pytest.approx(before, rel=1e-10)
    after = bound.estimate(positive + by_row, negatives + by_row[:, None]).item()
    assert (after == pytest.approx(before, rel=1e-10)) == (not isinstance(bound, MLCPC))


def test_a_constant_changes_nwj_but_not_donsker_varadhan_nor_barber_agakov_with_its_normaliser(scores):
    positive, negatives = scores

    def by(constant, bound):
        return bound.estimate(positive + constant, negatives + constant).item()

    assert by(3.0, DonskerVaradhan()) == pytest.approx(by(0.0, DonskerVaradhan()), rel=1e-12)
    assert by(3.0, BarberAgakov(NORMALISER + 3)) == pytest.approx(by(0.0, BarberAgakov(NORMALISER)), rel=1e-12)
    assert by(1.0, NWJ()) != pytest.approx(by(0.0, NWJ()), abs=0.1)


def test_extreme_scores_leave_donsker_varadhan_and_the_softmax_bounds_finite():
    positive, negatives = torch.tensor([1e4, -1e4]), torch.tensor([[1e4, -1e4], [0.0, 1e4]])
    for bound in (DonskerVaradhan(), *(BOUNDS[name][0] for name in SOFTMAX)):
        assert bound.estimate(positive, negatives).isfinite()


# --- MINE ---------------------------------------------------------------------------------------------


def gradients(objective, scores):
    leaves = [part.clone().requires_grad_() for part in scores]
    objective(*leaves).backward()
    return leaves[0].grad, leaves[1].grad


def test_mine_s_gradient_is_donsker_varadhan_s_when_its_mean_is_the_batch_s_own(scores):
    log_mean = scores[1].exp().mean().log()
    found = gradients(lambda *parts: mine_objective(*parts, log_mean), scores)
    expected = gradients(lambda *parts: -DonskerVaradhan().estimate(*parts), scores)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


def test_with_a_slow_mean_the_negatives_gradient_is_that_of_the_batch_times_the_ratio_of_means(scores):
    """Belghazi et al. 2018, eq. 12: the batch's mean of exp over the moving average."""
    log_mean = scores[1].exp().mean().log()
    own = gradients(lambda *parts: mine_objective(*parts, log_mean), scores)
    slow = gradients(lambda *parts: mine_objective(*parts, log_mean + math.log(4)), scores)
    torch.testing.assert_close(slow[0], own[0])
    torch.testing.assert_close(slow[1], own[1] / 4)


# --- by simulation: Gaussians with the ideal critic ---------------------------------------------------

GAUSSIANS = CorrelatedGaussians(2, 0.7)
LOWER = {"InfoNCE": InfoNCE(), "CPC": CPC(1.5), "ML-CPC": MLCPC(mlcpc_lower_alpha(16, 16)), "EqCo": EqCo(8.0)}


def over_batches(bound, n, batches, generator, shift=0.0):
    """The estimates of many batches of n pairs, with the log ratio plus a constant for a critic."""
    critic = Ideal(GAUSSIANS)
    values = []
    for _ in range(batches):
        scores = critic(*GAUSSIANS.sample(n, generator)) + shift
        values.append(bound.estimate(scores.diagonal(), off_diagonal(scores)).item())
    return torch.tensor(values)


def error(values):
    return (values.std() / len(values) ** 0.5).item()


@pytest.mark.parametrize("bound", LOWER.values(), ids=LOWER)
def test_of_gaussians_a_lower_bound_s_mean_is_below_the_information_within_its_error(bound, generator):
    values = over_batches(bound, 16, 500, generator)
    assert values.mean().item() <= GAUSSIANS.information + 4 * error(values)
    assert values.mean().item() > 0.5 * GAUSSIANS.information
    assert values.max().item() <= bound.ceiling(16, 15)


def test_of_gaussians_nwj_s_mean_is_the_information_within_its_error(generator):
    values = over_batches(NWJ(), 16, 2000, generator, shift=1.0)
    assert values.mean().item() == pytest.approx(GAUSSIANS.information, abs=4 * error(values))
    assert error(values) < 0.03


def test_of_gaussians_barber_agakov_s_mean_is_the_information_within_its_error(generator):
    """The log ratio's own Z(y) is 1 for every y."""
    values = over_batches(BarberAgakov(torch.zeros(16)), 16, 2000, generator)
    assert values.mean().item() == pytest.approx(GAUSSIANS.information, abs=4 * error(values))
    assert error(values) < 0.01


def test_of_gaussians_donsker_varadhan_is_above_with_few_pairs_and_comes_down_to_the_information(generator):
    few = over_batches(DonskerVaradhan(), 3, 4000, generator)
    assert few.mean().item() > GAUSSIANS.information + 4 * error(few)
    many = over_batches(DonskerVaradhan(), 512, 60, generator)
    assert many.mean().item() == pytest.approx(GAUSSIANS.information, abs=4 * error(many) + 0.01)


def independent(k, generator, n=4000):
    """Scores of n pairs and of k draws from p(y) for each."""
    x, y = GAUSSIANS.sample(n, generator)
    others = GAUSSIANS.sample(n * k, generator).y.view(n, k, 2)
    positive = torch.stack([GAUSSIANS.log_ratio(a[None], b[None])[0, 0] for a, b in zip(x, y, strict=True)])
    squares = x.square().sum(dim=1)[:, None] + others.square().sum(dim=2)
    rho = GAUSSIANS.rho
    products = (x[:, None] * others).sum(dim=2)
    return positive, GAUSSIANS.information + (rho * products - rho**2 / 2 * squares) / (1 - rho**2)


def test_infonce_with_the_ideal_critic_rises_to_the_information_with_k(generator):
    positive, negatives = independent(256, generator)
    # The positives' own part of the error is the same for all, and known: their mean is the information's own estimate.
    shift = GAUSSIANS.information - positive.mean().item()
    nats = [InfoNCE().estimate(positive, negatives[:, :k]).item() + shift for k in (1, 4, 16, 64, 256)]
    assert nats == sorted(nats)
    assert nats[0] < GAUSSIANS.information - 0.3
    assert nats[-1] == pytest.approx(GAUSSIANS.information, abs=0.02)
    assert all(value <= math.log1p(k) for value, k in zip(nats, (1, 4, 16, 64, 256), strict=True))


def test_eqco_s_estimate_does_not_depend_on_the_number_of_negatives_but_on_alpha(generator):
    """eqco Thm 1, eq. 6: log(1 + alpha) - E log(1 + alpha P(k0)/P(k0|q)), where there are many negatives."""
    positive, negatives = independent(512, generator)
    for alpha in (8.0, 64.0):
        expected = math.log1p(alpha) - (alpha * (-positive).exp()).log1p().mean().item()
        for k in (128, 512):
            found = EqCo(alpha).estimate(positive, negatives[:, :k]).item()
            assert found == pytest.approx(expected, abs=0.03)
    plain = [InfoNCE().estimate(positive, negatives[:, :k]).item() for k in (2, 512)]
    equal = [EqCo(64.0).estimate(positive, negatives[:, :k]).item() for k in (32, 512)]
    assert plain[1] - plain[0] > 0.15 > 5 * abs(equal[1] - equal[0])


# --- negatives of a ball or a ring: VINCE, CNCE -------------------------------------------------------


@pytest.fixture(scope="module")
def memory():
    """Ideal scores of 400 queries with a memory of 1,500 y, their own among them."""
    torch.set_default_dtype(torch.float64)
    x, y = GAUSSIANS.sample(1500, torch.Generator().manual_seed(11))
    return GAUSSIANS.log_ratio(x[:400], y), torch.arange(400)


def conditional(memory, sampler, k=16, repeats=20):
    """InfoNCE's estimate with negatives of a set, mean over repeated draws, and its error."""
    similarity, own = memory
    draws = torch.Generator().manual_seed(7)
    positive = similarity.gather(1, own[:, None])[:, 0]
    values = []
    for _ in range(repeats):
        rows = sampler.draw(similarity, own, k, draws).index
        values.append(InfoNCE().estimate(positive, similarity.gather(1, rows)).item())
    values = torch.tensor(values)
    return values.mean().item(), error(values)


def test_a_ball_s_estimate_is_below_infonce_for_every_share_and_lower_the_smaller(memory):
    """mutualinfo Coro 4.1.1, and section 3's note: of a ball no condition on the threshold is needed."""
    infonce, its_error = conditional(memory, Ring(0.0, 1.0))
    assert infonce <= GAUSSIANS.information + 0.1
    found = [conditional(memory, Ring(0.0, outer)) for outer in (1.0, 0.9, 0.75, 0.5, 0.25, 0.1, 0.02)]
    assert found[0][0] == pytest.approx(infonce, abs=4 * (its_error + found[0][1]))
    for (wider, wider_error), (closer, closer_error) in itertools.pairwise(found):
        assert closer < wider - 3 * (wider_error + closer_error)
    assert all(nats <= infonce + 4 * its_error for nats, _ in found)


def test_a_ring_above_the_threshold_is_below_infonce_and_one_at_low_similarity_exceeds_it(memory):
    """ring Thm 3.1 needs exp f above its mean over p, here 1; statement 3 says what becomes of a far ring."""
    infonce, its_error = conditional(memory, Ring(0.0, 1.0))
    close, close_error = conditional(memory, Ring(0.01, 0.1))
    far, far_error = conditional(memory, Ring(0.6, 0.9))
    assert close < infonce - 4 * (its_error + close_error)
    assert far > infonce + 4 * (its_error + far_error)
    assert far > GAUSSIANS.information
    assert far <= InfoNCE().ceiling(400, 16)
