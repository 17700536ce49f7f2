"""Bounds as estimates: loops from the papers, and the true information as the limit of bounds without a ceiling."""

import math
import statistics

import pytest
import torch

from annulus.bounds.alpha import CPC, MLCPC
from annulus.bounds.bound import present
from annulus.bounds.infonce import InfoNCE
from annulus_lab.studies.estimators.bounds import (
    INFONCE,
    NWJ,
    BarberAgakov,
    DonskerVaradhan,
    cpc,
    eqco,
    mlcpc,
    off_diagonal,
)
from annulus_lab.studies.estimators.critics import Ideal
from annulus_lab.studies.estimators.toys import DiscreteTable

pytestmark = pytest.mark.usefixtures("untouched_global_randomness", "in_float64")

N, K = 4, 5


@pytest.fixture
def scores(generator):
    """Scores from -7 to 7, in the range of cosines divided by 0.07."""
    drawn = 14 * torch.rand(N, 1 + K, generator=generator) - 7
    return drawn[:, 0], drawn[:, 1:]


NORMALISER = torch.tensor([0.5, -1.0, 2.0, 0.25], dtype=torch.float64)


def test_every_estimate_is_its_formula_and_its_name_says_what_it_is(scores):
    """Wu et al. 2020, arXiv:2005.13149, with its Lemma A.1, E[f - log Z(y)]; Donsker and Varadhan 1983."""
    mean, negatives = statistics.fmean(scores[0].tolist()), scores[1].flatten().tolist()
    for bound, name, expected in (
        (NWJ(), "NWJ", mean - statistics.fmean(math.exp(score - 1) for score in negatives)),
        (DonskerVaradhan(), "DV", mean - math.log(statistics.fmean(map(math.exp, negatives)))),
        (BarberAgakov(NORMALISER), "unnormalised BA", mean - statistics.fmean(NORMALISER.tolist())),
    ):
        assert bound.estimate(*scores).item() == pytest.approx(expected, rel=1e-12)
        assert (bound.name, bound.ceiling(N, K)) == (name, math.inf)


def test_a_softmax_bound_is_ceiling_minus_loss_of_the_library_s_own_with_its_warnings(scores):
    positive, negatives = scores[0][:, None], scores[1]
    for bound, name, own in (
        (INFONCE, "InfoNCE", InfoNCE()),
        (eqco(40.0), "EqCo, alpha 40", InfoNCE(40.0)),
        (cpc(0.3), "CPC, alpha 0.3", CPC(0.3)),
        (mlcpc(0.3), "ML-CPC, alpha 0.3", MLCPC(0.3, 0.3)),
    ):
        assert bound.name == name
        assert bound.ceiling(N, K) == pytest.approx(own.ceiling(*map(present, (positive, negatives)), 0.0).item())
        expected = bound.ceiling(N, K) - own.loss(positive, negatives, 0.0)
        assert bound.estimate(*scores).item() == pytest.approx(expected.item(), rel=1e-12)
        assert bound.warning(N, K) == ("; ".join(own.warnings(K, N)) or None)
    assert "not a lower bound" in mlcpc(0.3).warning(3, 2)


def test_off_diagonal_is_each_row_without_its_own_column(generator):
    for n in (2, 5):
        scores = torch.randn(n, n, generator=generator)
        for matrix in (scores, scores.T):
            expected = [[matrix[i, j].item() for j in range(n) if j != i] for i in range(n)]
            assert off_diagonal(matrix).tolist() == expected


ODDS = torch.tensor([[7, 2], [3, 8]])  # in 20ths
TABLE = DiscreteTable(ODDS.double() / 20)
ONE_HOT = torch.eye(2, dtype=torch.float64)
IDEAL = Ideal(TABLE)(ONE_HOT, ONE_HOT)
RANDOM = torch.randn(3, 2, 2, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
CRITICS = [IDEAL, *(RANDOM * torch.tensor([1, 3, 10])[:, None, None])]


def whole(critic):
    """Positives and negatives in their exact proportions: the mean over them is the expectation."""
    positive = critic.flatten().repeat_interleave(ODDS.flatten())
    product = (ODDS.sum(dim=1, keepdim=True) * ODDS.sum(dim=0)).flatten()  # in 400ths
    return positive, critic.flatten().repeat_interleave(product).view(20, 20)


def exactly(bound, critic):
    """The expectation of NWJ, Donsker-Varadhan's or Barber-Agakov's bound."""
    positive, negatives = whole(critic)
    if bound is BarberAgakov:
        y_index = torch.arange(2).expand(2, 2).flatten().repeat_interleave(ODDS.flatten())
        log_z = (TABLE.joint.sum(dim=1, keepdim=True) * critic.exp()).sum(dim=0).log()  # log E_p(x) exp f(x, y)
        return BarberAgakov(log_z[y_index]).estimate(positive, negatives).item()
    return bound().estimate(positive, negatives).item()


def test_with_its_own_ideal_critic_a_bound_without_ceiling_is_the_information():
    """NWJ's is 1 + log ratio; Donsker-Varadhan's may have any constant, Barber-Agakov's any function of y."""
    exact = pytest.approx(TABLE.information, abs=1e-12)
    assert exactly(NWJ, 1 + IDEAL) == exact
    for constant in (0.0, -17.0):
        assert exactly(DonskerVaradhan, IDEAL + constant) == exact
    for offset in (0.0, torch.tensor([3.0, -8.0])):
        assert exactly(BarberAgakov, IDEAL + offset) == exact


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
    estimate = NWJ().estimate(witness[:, 0], witness)  # the mean of exp(witness - 1) is 1
    assert estimate.item() == pytest.approx(INFONCE.estimate(positive, negatives).item(), rel=1e-12)


def test_donsker_varadhan_says_what_it_loses_and_stays_finite_for_extreme_scores():
    warning = DonskerVaradhan().warning(4, 5)
    assert all(part in warning for part in ("Donsker-Varadhan", "20 scores", "may exceed the information"))
    assert NWJ().warning(4, 5) is BarberAgakov(NORMALISER).warning(4, 5) is None
    positive, negatives = torch.tensor([1e4, -1e4]), torch.tensor([[1e4, -1e4], [0.0, 1e4]])
    assert DonskerVaradhan().estimate(positive, negatives).isfinite()
