"""Bounds: plain loops in float64, gradients, ceilings, absent and extreme scores. Theorems are in the next file."""

import math

import pytest
import torch
from method_cases import NORMALISERS
from plain_objectives import plain_binary_nce, plain_la, plain_partition, plain_softmax, present_scores

from annulus.bounds.alpha import CPC, MLCPC, cpc, cpc_ceiling, geometric, mlcpc, mlcpc_ceiling
from annulus.bounds.binary_nce import BinaryNCE, binary_nce
from annulus.bounds.bound import present
from annulus.bounds.eqco import margin
from annulus.bounds.infonce import InfoNCE, infonce, infonce_ceiling
from annulus.bounds.la import LocalAggregation, la_ceiling
from annulus.bounds.partition import PartitionFunction
from annulus.errors import InputError

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
ROWS, LOG_PARTITION = 50, torch.linspace(4, 7, 6, dtype=torch.float64)  # a different one for each query


@pytest.fixture
def scores(generator):
    """Scores of 6 queries against 3 positives and 7 negatives, of the size that a temperature of 0.07 makes."""
    values = 14 * torch.rand(6, 10, generator=generator, dtype=torch.float64) - 7
    return values[:, :3], values[:, 3:]


@pytest.fixture
def ragged(scores):
    """The same with some absent: 2 to 7 negatives and 1 to 3 positives per query."""
    positives, negatives = (part.clone() for part in scores)
    negatives[torch.arange(6)[:, None] > 8 - torch.arange(7)] = -torch.inf  # query 5 lacks the last three, 4 two, ...
    negatives[0, :5] = -torch.inf
    positives[1, 1:] = positives[2, 2] = -torch.inf
    return positives, negatives


def by_softmax(bound):
    def plain(positives, negatives):
        one = isinstance(bound, MLCPC)
        return plain_softmax(bound, [near[:1] if one else near for near in positives], negatives, 0.0)

    return lambda p, n: bound.loss(p, n, 0.0), plain, lambda p, n: bound.ceiling(p, n, 0.0)


# (loss, its plain loop with the ceiling, ceiling): positives and negatives, or for the ceiling their numbers.
LOSSES = {
    "infonce": by_softmax(InfoNCE()),
    "eqco": by_softmax(InfoNCE(eqco_alpha=40.0)),
    "cpc below 1": by_softmax(CPC(0.3)),
    "cpc above 1": by_softmax(CPC(2.5)),
    "cpc eqco": by_softmax(CPC(0.3, eqco_alpha=40.0)),
    "mlcpc below 1": by_softmax(MLCPC(0.3, 0.3)),
    "mlcpc above 1": by_softmax(MLCPC(2.5, 2.5)),
    "mlcpc eqco": by_softmax(MLCPC(0.3, 0.3, eqco_alpha=40.0)),
    "la": (  # the background is the close ones and the others
        lambda p, n: LocalAggregation().loss(p, torch.cat([p[:, 1:], n], dim=1)),
        lambda p, n: plain_la(p, [near[1:] + far for near, far in zip(p, n, strict=True)]),
        lambda p, n: la_ceiling(p, p + n),
    ),
    "binary-nce": (
        lambda p, n: binary_nce(p[:, 0], n, LOG_PARTITION[: len(p)].to(p.dtype), ROWS),
        lambda p, n: (plain_binary_nce([near[:1] for near in p], n, LOG_PARTITION.exp(), ROWS),),
        None,
    ),
}
every_loss = pytest.mark.parametrize(("loss", "plain", "ceiling"), LOSSES.values(), ids=LOSSES)
every_bound = pytest.mark.parametrize(
    ("loss", "ceiling"),
    [(loss, ceiling) for loss, _, ceiling in LOSSES.values() if ceiling],
    ids=[name for name in LOSSES if name != "binary-nce"],
)


def counts(positives, negatives):
    return present(positives), present(negatives)


@every_loss
def test_every_loss_and_ceiling_is_that_of_the_plain_loop(loss, plain, ceiling, scores, ragged):
    """Absent scores count nowhere, not even in the number of negatives."""
    for some in ((scores[0][:, :1], scores[1]), scores, ragged):
        expected, *highest = plain(*map(present_scores, some))
        assert loss(*some).item() == pytest.approx(expected.item(), rel=1e-10)
        actual = [ceiling(*counts(*some)).item()] if ceiling else []
        assert actual == pytest.approx(highest, rel=1e-6)


@every_loss
def test_gradients_agree_with_finite_differences_and_absent_scores_get_none(loss, plain, ceiling, scores, ragged):
    assert torch.autograd.gradcheck(loss, [part.clone().requires_grad_() for part in scores])
    leaves = [part.clone().requires_grad_() for part in ragged]
    loss(*leaves).backward()
    for leaf in leaves:
        assert leaf.grad.isfinite().all()
        assert (leaf.grad[leaf == -torch.inf] == 0).all()
    assert (leaves[1].grad[leaves[1] > -torch.inf] > 0).all()  # a present negative always pushes
    assert (leaves[0].grad[:, 0] < 0).any()


@every_loss
def test_scores_of_any_size_give_a_finite_loss_and_gradient(loss, plain, ceiling):
    """Scores are 1e4 either way; positives or negatives of a query differ by up to 2e4."""
    positives = torch.tensor([[1e4, -1e4], [-1e4, -1e4], [1e4, 1e4], [0.0, 0.0]]).requires_grad_()
    negatives = torch.tensor([[-1e4] * 3, [1e4, -1e4, 0.0], [1e4] * 3, [0.0, 0.0, -torch.inf]]).requires_grad_()
    value = loss(positives, negatives)
    value.backward()
    assert value.isfinite()
    assert value.item() > 100  # the second query's positive is far below a negative
    assert positives.grad.isfinite().all()
    assert negatives.grad.isfinite().all()


# --- ceilings -----------------------------------------------------------------------------------------


@every_bound
def test_equal_scores_reach_the_ceiling_and_neither_a_common_shift_nor_the_order_matters(loss, ceiling, scores, ragged):
    """The ceiling is the mean over queries of different numbers, and the estimate of equal scores zero."""
    equal = [part.where(part == -torch.inf, -2.0) for part in ragged]
    assert loss(*equal).item() == pytest.approx(ceiling(*counts(*equal)).item(), rel=1e-6)
    torch.testing.assert_close(loss(scores[0] + 9, scores[1] + 9), loss(*scores))
    torch.testing.assert_close(loss(scores[0], scores[1].flip(1)), loss(*scores))


@every_bound
def test_no_estimate_exceeds_its_ceiling(loss, ceiling, generator):
    """In float32 a difference of logsumexps may exceed it by rounding."""
    for lead in (0.0, 50.0, 1e4):
        for k in (3, 512):
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


def test_infonce_is_never_negative_in_float32_and_a_small_loss_keeps_its_digits(generator):
    """A difference of two logsumexps can be negative by rounding: the estimate would then exceed its ceiling."""
    positives = 1e4 + torch.randn(512, 9, generator=generator)
    assert infonce(positives, torch.randn(512, 16, generator=generator)) >= 0
    loss = infonce(torch.tensor([[20.0]]), torch.tensor([[0.0]]))  # 1 + exp(-20) rounds to 1 in float32
    assert loss.item() == pytest.approx(math.exp(-20), rel=1e-5)
    assert infonce(torch.tensor([[1e4], [-1e4]]), torch.zeros(2, 1)).item() == pytest.approx(5000.0)


@pytest.mark.parametrize("precision", [torch.float16, torch.bfloat16])
def test_half_precision_counts_and_sums_more_scores_than_it_holds(precision):
    """float16 ends at 65,504, and MoCo's queue has 65,536 keys."""
    positives, negatives = (torch.zeros(2, count, dtype=precision) for count in (1, 70_000))
    for loss, expected in (
        (infonce(positives, negatives), math.log(70_001)),
        (InfoNCE(eqco_alpha=9.0).loss(positives, negatives), math.log(10)),
        (cpc(positives, negatives, 0.5), math.log(140_002)),
        (mlcpc(positives[:, 0], negatives, 0.5), math.log(140_002)),
        (MLCPC(0.5, 0.5).loss(positives, negatives, 0.0), math.log(140_002)),
        (LocalAggregation().loss(positives, negatives), math.log(70_001)),
    ):
        assert loss.item() == pytest.approx(expected, rel=1e-5)


def test_second_derivatives_are_those_of_the_plain_softmax(scores):
    """A penalty on gradients needs them."""
    leaves = [part.clone().requires_grad_() for part in (scores[0][:, :1], scores[1])]
    own, negatives = leaves

    def plain():
        return (torch.cat(leaves, dim=1).logsumexp(dim=1) - own[:, 0]).mean()

    actual, expected = (
        torch.autograd.grad(
            sum(first.square().sum() for first in torch.autograd.grad(loss, leaves, create_graph=True)), leaves
        )
        for loss in (infonce(own, negatives), plain())
    )
    torch.testing.assert_close(actual, expected)


# --- one by one ---------------------------------------------------------------------------------------


def test_alpha_1_is_plain_cpc_and_one_query_makes_the_joint_softmax_its_own(scores):
    torch.testing.assert_close(cpc(*scores, 1.0), infonce(*scores))
    own, negatives = scores[0][:1, :1], scores[1][:1]
    torch.testing.assert_close(mlcpc(own[:, 0], negatives, 3.0), cpc(own, negatives, 3.0))


def test_a_query_without_negatives_has_no_infonce_loss_leaves_nce_its_positive_and_gives_alpha_no_weight(scores):
    positives = scores[0].clone().requires_grad_()
    negatives = torch.full((6, 7), -torch.inf, dtype=torch.float64, requires_grad=True)
    loss = infonce(positives, margin(negatives, 9.0))
    loss.backward()
    assert loss == 0
    assert (negatives.grad == 0).all()
    assert (positives.grad == 0).all()

    some = scores[1].index_fill(0, torch.tensor([2]), -torch.inf).requires_grad_()
    loss = LOSSES["binary-nce"][0](scores[0], some)
    loss.backward()
    assert loss.isfinite()
    assert some.grad.isfinite().all()
    with pytest.raises(InputError, match="a query has no negatives: all of its scores are -inf"):
        cpc(scores[0], some, 0.5)


def test_binary_nce_with_one_negative_tells_it_from_the_positive_at_even_odds():
    """Each score is as likely of data as of noise, k/columns: the loss is two times log 2 nats."""
    even = torch.tensor([math.log(1 / 50)])
    assert binary_nce(even, even[:, None], torch.zeros(1), 50).item() == pytest.approx(2 * math.log(2))


def test_a_geometric_curriculum_passes_its_ends_and_1_half_way():
    for start, end in [(2.0, 0.5), (5.0, 0.2), (10.0, 0.1)]:  # mlcpc section 5.3
        assert geometric(start, end, 0.0) == start
        assert geometric(start, end, 0.5) == pytest.approx(1.0)
        assert geometric(start, end, 1.0) == pytest.approx(end)
    assert geometric(1.0, 16.0, 0.25) == pytest.approx(2.0)


# --- the partition function -----------------------------------------------------------------------------

each_policy = pytest.mark.parametrize("policy", NORMALISERS)


def make_batch(generator):
    """Scores of 4 queries against 30 columns, and of 2 to 9 negatives of theirs."""
    scores = 3 * torch.randn(4, 30, generator=generator, dtype=torch.float64)
    negatives = scores[:, :9].clone()
    for query, count in enumerate([2, 9, 5, 7]):
        negatives[query, count:] = -torch.inf
    return scores, negatives


@each_policy
@pytest.mark.parametrize("rate", [0.75, 0.0])
def test_every_policy_is_its_plain_sum_batch_after_batch(policy, rate, generator):
    partition, z = PartitionFunction(policy, constant=2.25, rate=rate).double(), None
    for columns in (30, 30, 20, 30):
        scores, negatives = make_batch(generator)
        scores = scores[:, :columns]
        expected, z = plain_partition(partition, z, scores, present_scores(negatives))
        actual = partition(scores, negatives).exp()
        torch.testing.assert_close(actual.expand(4), torch.tensor([float(each) for each in expected]).double())
        assert (z is None) == partition.log_z.isnan()
        assert actual.shape == ((4,) if policy == "exact" else ())


@each_policy
def test_the_estimate_is_finite_for_any_score_a_constant_to_autograd_and_stays_as_it_is(policy, generator):
    partition = PartitionFunction(policy, constant=2.25, rate=0.75).double()
    extreme = torch.tensor([[800.0, 900.0, -900.0], [700.0, -1000.0, 0.0]], dtype=torch.float64)
    assert all(partition(extreme, extreme[:, :2]).isfinite().all() for _ in range(2))
    scores, negatives = (each.requires_grad_() for each in make_batch(generator))
    first = partition(scores, negatives)
    assert not first.requires_grad
    before = first.clone()
    partition(*make_batch(generator))
    assert torch.equal(first, before), "the next batch does not write into what a loss may hold"
    assert not partition.log_z.requires_grad


def test_only_mlcpc_that_divides_by_alpha_scales_its_gradient():
    for training, alpha in ((0.0, 4.0), (0.5, 2.0), (1.0, 1.0)):
        assert MLCPC(4.0, 1.0).gradient_scale(training) == 1
        assert MLCPC(4.0, 1.0, divide_by_alpha=True).gradient_scale(training) == pytest.approx(1 / alpha)
    assert InfoNCE().gradient_scale(0.5) == CPC(4.0).gradient_scale(0.5) == 1


# --- refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 8.0, math.nan])
def test_an_alpha_outside_its_range_is_refused_with_the_range(alpha, scores, ragged):
    numbers = counts(*scores)
    for call, *arguments in (
        (cpc, *scores),
        (mlcpc, scores[0][:, 0], scores[1]),
        (cpc_ceiling, *numbers),
        (mlcpc_ceiling, numbers[1]),
    ):
        with pytest.raises(InputError, match=rf"alpha is {alpha:g} with m = 8 .* above 0 and below m: choose alpha 1"):
            call(*arguments, alpha)
    with pytest.raises(InputError, match="with m = 3 candidates, a positive and 2 negatives"):
        cpc(*ragged, 3.0)  # the query with the fewest limits alpha


@pytest.mark.parametrize("eqco_alpha", [0.0, math.inf, math.nan])
def test_an_eqco_alpha_that_is_no_number_of_negatives_is_refused(eqco_alpha):
    with pytest.raises(InputError, match=rf"^eqco_alpha {eqco_alpha}: give a number from 1e-09 to"):
        InfoNCE(eqco_alpha=eqco_alpha)


def test_a_bound_that_keeps_an_estimate_says_how_it_is_evaluated(scores):
    with pytest.raises(NotImplementedError, match="BinaryNCE has no loss of scores alone: begin"):
        BinaryNCE(normaliser="constant", constant=1.0, rate=0.5).loss(*scores, 0.0)
