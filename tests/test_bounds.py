"""Bounds: plain loops in float64, gradients, ceilings, absent and extreme scores. Theorems are in the next file."""

import math
from functools import partial

import pytest
import torch
from jaxtyping import TypeCheckError
from torch.nn.functional import kl_div

from annulus.bounds.alpha import cpc, cpc_ceiling, geometric, mlcpc, mlcpc_ceiling
from annulus.bounds.binary_nce import binary_nce
from annulus.bounds.bound import present
from annulus.bounds.eqco import margin
from annulus.bounds.infonce import infonce, infonce_ceiling
from annulus.bounds.la import la, la_ceiling
from annulus.errors import InputError

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
ROWS, LOG_PARTITION = 50, torch.tensor(5.5, dtype=torch.float64)


@pytest.fixture
def scores(generator):
    """Scores of 6 queries against 3 positives and 7 negatives, of the size that a temperature of 0.07 makes."""
    drawn = 14 * torch.rand(6, 10, generator=generator, dtype=torch.float64) - 7
    return drawn[:, :3], drawn[:, 3:]


@pytest.fixture
def ragged(scores):
    """The same with some absent: 2 to 7 negatives and 1 to 3 positives per query."""
    positives, negatives = (part.clone() for part in scores)
    negatives[torch.arange(6)[:, None] > 8 - torch.arange(7)] = -torch.inf  # query 5 lacks the last three, 4 two, ...
    negatives[0, :5] = -torch.inf
    positives[1, 1:] = positives[2, 2] = -torch.inf
    return positives, negatives


# --- slow and plain: one query at a time, absent scores left out ---------------------------------------


def kept(scores):
    return [[math.exp(score) for score in row if score > -math.inf] for row in scores.tolist()]


def mean(losses):
    losses = list(losses)
    return sum(losses) / len(losses)


def plain_infonce(positives, negatives):
    """mutualinfo section 2: -log of (sum over the positives) / (sum over all), mean over queries."""
    pairs = zip(kept(positives), kept(negatives), strict=True)
    return mean(-math.log(sum(own) / (sum(own) + sum(others))) for own, others in pairs)


def plain_cpc(positives, negatives, alpha):
    """mlcpc eq. 4, as log(m/alpha) minus it."""
    losses = []
    for own, others in zip(kept(positives), kept(negatives), strict=True):
        m = 1 + len(others)
        beta = (m - alpha) / (m - 1)
        value = math.log(m * sum(own) / (alpha * sum(own) + beta * sum(others)))
        losses.append(math.log(m / alpha) - value)
    return mean(losses)


def plain_mlcpc(positives, negatives, alpha):
    """mlcpc eq. 6, as log(m/alpha) minus it; m - 1 is the mean number of negatives."""
    own, others = [row[0] for row in kept(positives)], kept(negatives)
    n, m = len(own), 1 + mean(len(row) for row in others)
    beta = (m - alpha) / (m - 1)
    denominator = alpha * sum(own) + beta * sum(sum(row) for row in others)
    return math.log(m / alpha) - mean(math.log(n * m * score / denominator) for score in own)


def plain_la(close, others):
    """ring eq. 5 without its constant: the background is the close ones and the others."""
    pairs = zip(kept(close), kept(others), strict=True)
    return mean(math.log(sum(own) + sum(rest)) - math.log(sum(own)) for own, rest in pairs)


def plain_nce(positives, negatives):
    """-log(p/(p + K/N)) for the positive and for each negative -log of the rest of 1, summed."""
    losses = []
    for (own, *_), others in zip(kept(positives), kept(negatives), strict=True):
        noise = len(others) / ROWS
        p, others = own / math.exp(LOG_PARTITION), [other / math.exp(LOG_PARTITION) for other in others]
        losses.append(-math.log(p / (p + noise)) - sum(math.log(noise / (other + noise)) for other in others))
    return mean(losses)


def plain_eqco(positives, negatives, eqco_alpha):
    """eqco eq. 10: -log s0 / (s0 + (alpha/K) sum_i s_i)."""
    losses = []
    for own, others in zip(kept(positives), kept(negatives), strict=True):
        losses.append(-math.log(sum(own) / (sum(own) + eqco_alpha / len(others) * sum(others))))
    return mean(losses)


def close_and_background(positives, negatives):
    return positives, torch.cat([positives, negatives], dim=1)


def counts(positives, negatives):
    return present(positives), present(negatives)


# Each takes positives and negatives; the ceiling takes their numbers.
LOSSES = {
    "infonce": (infonce, plain_infonce, infonce_ceiling),
    "cpc below 1": (partial(cpc, alpha=0.3), partial(plain_cpc, alpha=0.3), partial(cpc_ceiling, alpha=0.3)),
    "cpc above 1": (partial(cpc, alpha=2.5), partial(plain_cpc, alpha=2.5), partial(cpc_ceiling, alpha=2.5)),
    "mlcpc below 1": (
        lambda positives, negatives: mlcpc(positives[:, 0], negatives, 0.3),
        partial(plain_mlcpc, alpha=0.3),
        lambda positives, negatives: mlcpc_ceiling(negatives, 0.3),
    ),
    "mlcpc above 1": (
        lambda positives, negatives: mlcpc(positives[:, 0], negatives, 2.5),
        partial(plain_mlcpc, alpha=2.5),
        lambda positives, negatives: mlcpc_ceiling(negatives, 2.5),
    ),
    "la": (
        lambda positives, negatives: la(*close_and_background(positives, negatives)),
        plain_la,
        lambda positives, negatives: la_ceiling(positives, positives + negatives),
    ),
    "eqco": (
        lambda positives, negatives: infonce(positives, margin(negatives, 40.0)),
        partial(plain_eqco, eqco_alpha=40.0),
        partial(infonce_ceiling, eqco_alpha=40.0),
    ),
    "binary-nce": (
        lambda positives, negatives: binary_nce(positives[:, 0], negatives, LOG_PARTITION.to(positives.dtype), ROWS),
        plain_nce,
        None,
    ),
}
every_loss = pytest.mark.parametrize(("loss", "plain", "ceiling"), LOSSES.values(), ids=LOSSES)
every_bound = pytest.mark.parametrize(
    ("loss", "ceiling"),
    [(loss, top) for loss, _, top in LOSSES.values() if top],
    ids=[n for n in LOSSES if n != "binary-nce"],
)


@every_loss
def test_every_loss_equals_the_plain_loop(loss, plain, ceiling, scores):
    for positives in (scores[0][:, :1], scores[0]):
        expected = pytest.approx(plain(positives, scores[1]), rel=1e-12)
        assert loss(positives, scores[1]).item() == expected


@every_loss
def test_absent_scores_count_nowhere_not_even_in_the_number_of_negatives(loss, plain, ceiling, ragged):
    assert loss(*ragged).item() == pytest.approx(plain(*ragged), rel=1e-12)


@every_loss
def test_absent_scores_get_no_gradient(loss, plain, ceiling, ragged):
    leaves = [part.clone().requires_grad_() for part in ragged]
    loss(*leaves).backward()
    for leaf in leaves:
        assert leaf.grad.isfinite().all()
        assert (leaf.grad[leaf == -torch.inf] == 0).all()
    assert (leaves[1].grad[leaves[1] > -torch.inf] > 0).all()  # a present negative always pushes
    assert (leaves[0].grad[:, 0] < 0).any()


@every_loss
def test_gradients_agree_with_finite_differences(loss, plain, ceiling, scores):
    assert torch.autograd.gradcheck(loss, [part.clone().requires_grad_() for part in scores])


@every_loss
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_scores_of_any_size_give_a_finite_loss_and_gradient(loss, plain, ceiling, dtype):
    """Positives and negatives of 1e4 either way, among them queries whose positives or negatives differ by 2e4."""
    positives = torch.tensor([[1e4, -1e4], [-1e4, -1e4], [1e4, 1e4], [0.0, 0.0]], dtype=dtype).requires_grad_()
    negatives = torch.tensor([[-1e4] * 3, [1e4, -1e4, 0.0], [1e4] * 3, [0.0, 0.0, -torch.inf]], dtype=dtype)
    negatives.requires_grad_()
    value = loss(positives, negatives)
    value.backward()
    assert value.isfinite()
    assert value.item() > 100  # the second query's positive is far below a negative
    assert positives.grad.isfinite().all()
    assert negatives.grad.isfinite().all()


# --- ceilings -----------------------------------------------------------------------------------------


@every_bound
@pytest.mark.parametrize("positives", [1, 3])
@pytest.mark.parametrize("k", [3, 4096])
def test_where_all_scores_are_equal_the_loss_is_its_ceiling_so_that_the_estimate_is_zero(loss, ceiling, positives, k):
    positives = 1 if loss in (LOSSES["mlcpc below 1"][0], LOSSES["mlcpc above 1"][0]) else positives
    scores = torch.full((5, positives), 3.0, dtype=torch.float64), torch.full((5, k), 3.0, dtype=torch.float64)
    assert loss(*scores).item() == pytest.approx(ceiling(*counts(*scores)).item(), rel=1e-6)


@every_bound
def test_the_ceiling_is_the_mean_over_queries_of_different_numbers(loss, ceiling, ragged):
    equal = [part.where(part == -torch.inf, -2.0) for part in ragged]
    assert loss(*equal).item() == pytest.approx(ceiling(*counts(*equal)).item(), rel=1e-6)


@every_bound
@pytest.mark.parametrize("lead", [0.0, 5.0, 50.0, 1e4])
@pytest.mark.parametrize("k", [3, 4096])
def test_no_estimate_exceeds_its_ceiling(loss, ceiling, lead, k, generator):
    """In float32 too, but for the rounding of a difference of logsumexps where there is one."""
    negatives = torch.randn(64, k, generator=generator)
    for noise in (1.0, 30.0):
        positives = lead + noise * torch.randn(64, 3, generator=generator)
        assert loss(positives.double(), negatives.double()) >= -1e-11 * (1 + lead)
        assert loss(positives, negatives) >= -1e-6 * (1 + lead)
    assert loss(torch.full((64, 1), lead), negatives - 60) == pytest.approx(0, abs=0.3 if not lead else 1e-6)


@pytest.mark.parametrize("k", [1, 7, 4096])
def test_the_ceilings_that_the_papers_state(k):
    one, many, m = torch.ones(4, dtype=torch.int64), torch.full((4,), k), k + 1
    assert infonce_ceiling(one, many).item() == pytest.approx(math.log(k + 1))
    assert infonce_ceiling(one, many, eqco_alpha=256.0).item() == pytest.approx(math.log(1 + 256))
    for alpha in (0.01, 1.0, 1.9):
        assert cpc_ceiling(one, many, alpha).item() == pytest.approx(math.log(m / alpha), rel=1e-5)
        assert mlcpc_ceiling(many, alpha).item() == pytest.approx(math.log(m / alpha), rel=1e-5)
    assert la_ceiling(3 * one, 3 * many).item() == pytest.approx(math.log(k), abs=1e-6)


@pytest.mark.parametrize("alpha", [0.2, 1.0, 1.7])
def test_a_margin_raises_the_ceilings_of_cpc_and_mlcpc_to_what_equal_scores_give(alpha):
    positives, negatives = torch.zeros(3, 1, dtype=torch.float64), torch.zeros(3, 5, dtype=torch.float64)
    numbers, shifted = counts(positives, negatives), margin(negatives, 40.0)
    assert cpc_ceiling(*numbers, alpha, 40.0).item() == pytest.approx(cpc(positives, shifted, alpha).item())
    assert mlcpc_ceiling(numbers[1], alpha, 40.0).item() == pytest.approx(mlcpc(positives[:, 0], shifted, alpha).item())


def test_infonce_is_never_negative_in_float32_with_several_positives(generator):
    """A difference of two logsumexps is, by rounding: then the estimate would exceed its ceiling."""
    positives = 1e4 + torch.randn(512, 9, generator=generator)
    assert infonce(positives, torch.randn(512, 16, generator=generator)) >= 0


# --- one by one ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 7, 4096])
def test_infonce_at_chance_is_log_of_the_number_of_candidates(k):
    scores = torch.full((5, k + 1), 3.0, dtype=torch.float64)
    assert infonce(scores[:, :1], scores[:, 1:]).item() == pytest.approx(math.log(1 + k), rel=1e-12)


def test_infonce_of_a_positive_far_below_its_negatives_is_their_distance():
    assert infonce(torch.tensor([[1e4], [-1e4]]), torch.zeros(2, 1)).item() == pytest.approx(5000.0)


def test_a_small_loss_keeps_its_digits():
    loss = infonce(torch.tensor([[20.0]]), torch.tensor([[0.0]]))  # 1 + exp(-20) rounds to 1 in float32
    assert loss.item() == pytest.approx(math.exp(-20), rel=1e-5)


def test_gradients_of_infonce_are_the_softmax_minus_the_positive(scores):
    positives, negatives = (part.clone().requires_grad_() for part in (scores[0][:, :1], scores[1]))
    infonce(positives, negatives).backward()
    probabilities = torch.cat([positives, negatives], dim=1).softmax(dim=1).detach() / 6
    torch.testing.assert_close(positives.grad, probabilities[:, :1] - 1 / 6)
    torch.testing.assert_close(negatives.grad, probabilities[:, 1:])


@pytest.mark.parametrize("name", ["infonce", "cpc below 1", "la", "eqco", "binary-nce"])
def test_one_query_s_loss_does_not_depend_on_the_others(name, scores):
    loss = LOSSES[name][0]
    each = [loss(scores[0][i : i + 1], scores[1][i : i + 1]) for i in range(6)]
    torch.testing.assert_close(loss(*scores), torch.stack(each).mean())


@every_bound
def test_a_common_shift_of_all_scores_and_the_order_of_negatives_change_nothing(loss, ceiling, scores):
    expected = loss(*scores)
    torch.testing.assert_close(loss(scores[0] + 9, scores[1] + 9), expected)
    torch.testing.assert_close(loss(scores[0], scores[1].flip(1)), expected)


def test_alpha_1_is_plain_cpc_and_one_query_makes_the_joint_softmax_its_own(scores):
    torch.testing.assert_close(cpc(*scores, 1.0), infonce(*scores))
    for alpha in (0.2, 1.0, 3.0):
        own, negatives = scores[0][:1, :1], scores[1][:1]
        torch.testing.assert_close(mlcpc(own[:, 0], negatives, alpha), cpc(own, negatives, alpha))


@pytest.mark.parametrize("alpha", [0.05, 1.0, 4.0])
def test_mlcpc_is_the_divergence_of_algorithm_1(alpha, scores):
    """mlcpc Algorithm 1: target 1/n on the positives, against the softmax of the weighed logits of all n m."""
    positives, negatives = scores[0][:, :1], scores[1]
    beta = (8 - alpha) / 7
    logits = torch.cat([positives + math.log(alpha), negatives + math.log(beta)], dim=1).flatten()
    target = torch.tensor([1 / 6] + [0.0] * 7, dtype=torch.float64).repeat(6)
    expected = kl_div(logits.log_softmax(dim=0), target, reduction="sum")
    torch.testing.assert_close(mlcpc(positives[:, 0], negatives, alpha), expected)


def test_a_query_without_negatives_has_no_infonce_loss_and_no_gradient(scores):
    positives = scores[0].clone().requires_grad_()
    negatives = torch.full((6, 7), -torch.inf, dtype=torch.float64, requires_grad=True)
    loss = infonce(positives, margin(negatives, 9.0))
    loss.backward()
    assert loss == 0
    assert (negatives.grad == 0).all()
    assert (positives.grad == 0).all()


def test_a_query_without_negatives_leaves_nce_its_positive(scores):
    negatives = scores[1].clone()
    negatives[2] = -torch.inf
    negatives.requires_grad_()
    loss = LOSSES["binary-nce"][0](scores[0], negatives)
    loss.backward()
    assert loss.isfinite()
    assert negatives.grad.isfinite().all()


def test_weights_refuse_a_query_without_negatives(scores):
    negatives = scores[1].clone()
    negatives[2] = -torch.inf
    with pytest.raises(AssertionError, match="a query without negatives"):
        cpc(scores[0], negatives, 0.5)


def test_nce_where_data_and_noise_are_as_likely_is_log_2_for_each_candidate():
    scores = torch.full((3, 5), math.log(7 / 100), dtype=torch.float64)  # P = exp(s) = K/rows with Z = 1
    loss = binary_nce(
        torch.full((3,), math.log(7 / 100)).double(), scores.repeat(1, 2)[:, :7], torch.tensor(0.0).double(), 100
    )
    assert loss.item() == pytest.approx(8 * math.log(2))


def test_nce_takes_a_partition_per_query(scores):
    partitions = torch.linspace(-1, 9, 6, dtype=torch.float64)
    each = [binary_nce(scores[0][i : i + 1, 0], scores[1][i : i + 1], partitions[i], ROWS) for i in range(6)]
    torch.testing.assert_close(binary_nce(scores[0][:, 0], scores[1], partitions, ROWS), torch.stack(each).mean())


def test_a_geometric_curriculum_passes_its_ends_and_1_half_way():
    for start, end in [(2.0, 0.5), (5.0, 0.2), (10.0, 0.1)]:  # mlcpc section 5.3
        assert geometric(start, end, 0.0) == start
        assert geometric(start, end, 0.5) == pytest.approx(1.0)
        assert geometric(start, end, 1.0) == pytest.approx(end)
    assert geometric(1.0, 16.0, 0.25) == pytest.approx(2.0)


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, -1.0, 8.0, 100.0, math.nan])
def test_an_alpha_outside_its_range_is_refused_with_the_range(alpha, scores):
    numbers = counts(*scores)
    for call in (
        lambda: cpc(*scores, alpha),
        lambda: mlcpc(scores[0][:, 0], scores[1], alpha),
        lambda: cpc_ceiling(*numbers, alpha),
        lambda: mlcpc_ceiling(numbers[1], alpha),
    ):
        with pytest.raises(InputError, match=rf"alpha is {alpha:g} with m = 8 .* above 0 and below m: choose alpha 1"):
            call()


def test_the_query_with_the_fewest_negatives_limits_alpha(ragged):
    with pytest.raises(InputError, match="with m = 3 candidates, a positive and 2 negatives"):
        cpc(*ragged, 3.0)


@pytest.mark.parametrize("eqco_alpha", [0.0, -4.0, math.inf, math.nan])
def test_an_eqco_alpha_that_is_no_number_of_negatives_is_refused(eqco_alpha, scores):
    with pytest.raises(InputError, match=rf"eqco_alpha is {eqco_alpha:g}; .* above 0: choose .* or null"):
        margin(scores[1], eqco_alpha)


def test_wrong_shapes_fail_while_tests_run():
    """The signatures are checked (conftest.py), so no test can pass with shapes that they exclude."""
    with pytest.raises(TypeCheckError):
        infonce(torch.zeros(5, 1), torch.zeros(4, 7))
    with pytest.raises(TypeCheckError):
        infonce(torch.zeros(5, 1), torch.zeros(5, 7, dtype=torch.int64))
    with pytest.raises(TypeCheckError):
        infonce(torch.zeros(5), torch.zeros(5, 7))
