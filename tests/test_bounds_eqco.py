"""Bounds: EqCo's margin, its gradients, and how little they depend on the number of negatives."""

import math

import pytest
import torch

from annulus.bounds.alpha import CPC, MLCPC, cpc, mlcpc
from annulus.bounds.bound import present
from annulus.bounds.eqco import effective_alpha, margin
from annulus.bounds.infonce import InfoNCE, infonce

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
TEMPERATURE, EQCO_ALPHA = 0.2, 256.0


@pytest.mark.parametrize("k", [1, 2, 7])
@pytest.mark.parametrize("eqco_alpha", [0.5, 7.0, 65536.0])
def test_a_margin_on_the_negatives_is_the_paper_s_on_the_positive_and_the_estimate_cpc_with_alpha_of_k(
    k, eqco_alpha, generator
):
    """eqco eq. 1 with eq. 5, m = temperature log(alpha/K); section 3, 9: alpha = (K + 1)/(eqco_alpha + 1)."""
    positive, negatives = (14 * torch.rand(6, 1 + k, generator=generator, dtype=torch.float64) - 7).split([1, k], dim=1)
    shift = TEMPERATURE * math.log(eqco_alpha / k)
    by_margin = infonce((positive * TEMPERATURE - shift) / TEMPERATURE, negatives)
    torch.testing.assert_close(infonce(positive, margin(negatives, eqco_alpha)), by_margin)
    for lead in (0.0, 9.0, 1e4):
        eqco, cpc = (
            bound.estimate(positive + lead, negatives, 0.0, present(negatives), lambda: negatives).bound_nats.item()
            for bound in (InfoNCE(eqco_alpha), CPC((k + 1) / (eqco_alpha + 1)))
        )
        assert eqco == pytest.approx(cpc, abs=1e-5)
        assert eqco <= math.log(1 + eqco_alpha) + 1e-5


@pytest.mark.parametrize(("alpha", "eqco_alpha"), [(0.5, 3.0), (1.0, 65536.0), (6.0, 0.5), (3.0, 7.0)])
def test_the_effective_alpha_gives_without_a_margin_the_weights_of_alpha_with_it(alpha, eqco_alpha, generator):
    scores = torch.rand(6, 8, generator=generator, dtype=torch.float64).requires_grad_()
    plain = effective_alpha(alpha, 8, eqco_alpha)
    for objective in (cpc, lambda positives, *rest: mlcpc(positives[:, 0], *rest)):
        with_margin, without = (
            torch.autograd.grad(objective(scores[:, :1], negatives, weight), scores)[0]
            for negatives, weight in ((margin(scores[:, 1:], eqco_alpha), alpha), (scores[:, 1:], plain))
        )
        torch.testing.assert_close(with_margin, without)


def test_an_alpha_that_no_bound_accepts_and_one_without_a_margin_are_their_own_effective_alpha():
    assert [effective_alpha(8.0, 8, 3.0), effective_alpha(9.5, 8, 3.0)] == [8.0, 9.5]
    assert effective_alpha(2.5, 8, None) == 2.5
    assert effective_alpha(7.9, 8, 3.0) != 7.9


def test_a_margin_moves_the_alpha_from_which_cpc_and_mlcpc_warn():
    """With alpha 1, a margin for 16 times the negatives acts like an alpha of about a sixteenth."""
    assert CPC(alpha=1.0).warnings(15, 8) == MLCPC(alpha_start=1.0, alpha_end=1.0).warnings(15, 1) == []
    for bound, queries in ((CPC(alpha=1.0, eqco_alpha=240.0), 8), (MLCPC(1.0, 1.0, eqco_alpha=240.0), 1)):
        [warning] = bound.warnings(15, queries)
        assert f"alpha {16 / 241:g}" in warning
    assert f"not log m = {math.log(16):.3g}" in CPC(alpha=1.0, eqco_alpha=240.0).warnings(15, 8)[0]


def unit(*shape):
    vectors = torch.randn(*shape, generator=torch.Generator().manual_seed(math.prod(shape)), dtype=torch.float64)
    return vectors / vectors.norm(dim=-1, keepdim=True)


@pytest.fixture(scope="module")
def keyed():
    """Queries, positive keys at a cosine of 0.9 and 4096 negative keys of 16 numbers, as in eqco section 3, 5."""
    queries, aside = unit(2, 500, 16)
    aside = aside - (aside * queries).sum(dim=1, keepdim=True) * queries
    positives = 0.9 * queries + math.sqrt(1 - 0.9**2) * aside / aside.norm(dim=1, keepdim=True)
    return queries, positives, unit(4096, 16)


def eqco_gradients(queries, positives, keys, eqco_alpha=EQCO_ALPHA):
    """Gradients per query, by autograd."""
    queries = queries.clone().requires_grad_()
    own = (queries * positives).sum(dim=1, keepdim=True) / TEMPERATURE
    loss = infonce(own, margin(queries @ keys.T / TEMPERATURE, eqco_alpha))
    (len(queries) * loss).backward()
    return queries.grad


def shares(queries, positives, keys):
    """s_0, s_i and Z = s_0 + (alpha/K) sum_i s_i of eqco eq. 10."""
    s0 = ((queries * positives).sum(dim=1) / TEMPERATURE).exp()
    s = (queries @ keys.T / TEMPERATURE).exp()
    return s0, s, s0 + EQCO_ALPHA / len(keys) * s.sum(dim=1)


def test_the_eqco_gradient_has_each_negative_s_own_score_in_its_sum(keyed):
    """eqco eq. 11 holds with s_i in the negative sum; the paper prints s_0."""
    queries, positives, keys = keyed[0][:5], keyed[1][:5], keyed[2][:9]
    s0, s, total = shares(queries, positives, keys)
    gradients = eqco_gradients(queries, positives, keys)
    for i in range(5):
        pull, push = -(1 - s0[i] / total[i]) / TEMPERATURE * positives[i], EQCO_ALPHA / (TEMPERATURE * 9) / total[i]
        torch.testing.assert_close(gradients[i], pull + push * sum(s[i, j] * keys[j] for j in range(9)))
        assert (gradients[i] - pull - push * sum(s0[i] * keys[j] for j in range(9))).norm() > 0.1


@pytest.mark.parametrize("k", [1, 4096])
def test_every_eqco_gradient_is_within_its_bound(k, keyed):
    """eqco eq. 12 holds for each query."""
    some = keyed[0], keyed[1], keyed[2][:k]
    s0, _, total = shares(*some)
    assert (eqco_gradients(*some).norm(dim=1) <= 2 / TEMPERATURE * (1 - s0 / total) + 1e-12).all()


def test_eqco_gradients_are_as_large_with_few_negatives_as_with_many_and_plain_ones_are_not(keyed):
    """eqco eq. 7, one bound for every K, and the values of eqco section 3, 5."""
    queries, positives, keys = keyed
    s0, s, _ = shares(*keyed)
    bound = (2 / TEMPERATURE * (1 - s0 / (s0 + EQCO_ALPHA * s.mean()))).mean().item()
    assert bound == pytest.approx(8.5, abs=0.1)

    def mean_norm(k, eqco_alpha):
        return eqco_gradients(queries, positives, keys[:k], eqco_alpha).norm(dim=1).mean().item()

    norms = [mean_norm(k, EQCO_ALPHA) for k in (4, 64, 256, 4096)]
    assert max(norms) < bound
    assert max(norms) < 1.5 * min(norms)
    assert norms[3] == pytest.approx(3.1, abs=0.2)
    assert norms[2] == pytest.approx(3.2, abs=0.2)  # plain InfoNCE: the margin is 0
    assert mean_norm(4, 4.0) < 0.2 * norms[2]


def test_the_eqco_estimate_hardly_depends_on_the_number_of_negatives(keyed):
    """eqco Thm 1, up to the law of large numbers; InfoNCE's grows with log K where it is saturated."""
    queries, positives, keys = keyed
    own = (queries * positives).sum(dim=1, keepdim=True) / TEMPERATURE
    scores = queries @ keys.T / TEMPERATURE
    eqco = [math.log(257) - infonce(own, margin(scores[:, :k], 256.0)).item() for k in (256, 1024, 4096)]
    assert max(eqco) - min(eqco) < 0.1
    plain = [math.log(1 + k) - infonce(own, scores[:, :k]).item() for k in (256, 4096)]
    assert plain[1] - plain[0] > 3 * (max(eqco) - min(eqco))


def test_one_step_of_twice_the_queries_at_twice_the_rate_is_two_steps_to_first_order(keyed):
    """eqco section 3, 8: the loss is a mean over queries, so the rate goes with their number."""
    queries, positives, keys = keyed[0][:8], keyed[1][:8], keyed[2][:64]

    def step(weight, some, rate):
        weight = weight.clone().requires_grad_()
        embedded = queries[some] @ weight
        own = (embedded * positives[some]).sum(dim=1, keepdim=True) / TEMPERATURE
        [gradient] = torch.autograd.grad(infonce(own, margin(embedded @ keys.T / TEMPERATURE, EQCO_ALPHA)), weight)
        return (weight - rate * gradient).detach()

    def apart(rate):
        start = torch.eye(16, dtype=torch.float64)
        twice = step(step(start, slice(4), rate), slice(4, 8), rate)
        return (step(start, slice(8), 2 * rate) - twice).norm() / rate

    assert apart(1e-3) / apart(1e-4) == pytest.approx(10, rel=0.05)
