"""The binary example's closed forms against every batch, through the real bounds."""

import itertools
import math

import pytest
import torch

from annulus.bounds.alpha import mlcpc_lower_alpha
from annulus_lab.studies.estimators.binary import cpc_of_batch, mlcpc_of_batch, moments
from annulus_lab.studies.estimators.bounds import cpc, mlcpc, off_diagonal
from annulus_lab.studies.estimators.toys import binary_pair

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

BOUNDS = {"CPC": (cpc, cpc_of_batch), "ML-CPC": (mlcpc, mlcpc_of_batch)}
both = pytest.mark.parametrize(("bound", "closed_form"), BOUNDS.values(), ids=BOUNDS)


def value(bound, bits, p=0.5):
    """The bound of a batch of pairs (bit, bit), with the ideal critic and the other pairs' y for negatives."""
    one_hot = torch.eye(2, dtype=torch.float64)[torch.tensor(bits)]
    scores = binary_pair(p).log_ratio(one_hot, one_hot)
    return bound.estimate(scores.diagonal(), off_diagonal(scores)).item()


@both
@pytest.mark.parametrize(("m", "alpha"), [(2, 1.9), (4, 0.01), (4, 1.0)])
def test_a_batch_has_the_closed_form_s_value_whichever_its_pairs_are(bound, closed_form, m, alpha):
    for bits in itertools.product([0, 1], repeat=m):
        assert value(bound(alpha), bits) == pytest.approx(closed_form(sum(bits), m, alpha), abs=1e-12)


@both
@pytest.mark.parametrize("p", [0.5, 0.1])
def test_mean_and_variance_are_those_over_all_batches(bound, closed_form, p):
    """The critic is that of p = 1/2 for every p: one score for all equal pairs, and a ratio of 0 for unequal ones."""
    m, alpha = 4, 0.5
    batches = list(itertools.product([0, 1], repeat=m))
    chances = [p ** sum(bits) * (1 - p) ** (m - sum(bits)) for bits in batches]
    values = [value(bound(alpha), bits) for bits in batches]
    mean = sum(chance * nats for chance, nats in zip(chances, values, strict=True))
    variance = sum(chance * (nats - mean) ** 2 for chance, nats in zip(chances, values, strict=True))
    actual = moments(closed_form, m, alpha, p)
    assert actual.mean == pytest.approx(mean, abs=1e-12)
    assert actual.variance == pytest.approx(variance, abs=1e-12)


@both
def test_bias_and_variance_vanish_with_many_pairs(bound, closed_form):
    """mlcpc.fig2 has these bounds: CPC, and ML-CPC at its lowest alpha."""
    results = []
    for m in (4, 16, 64, 256, 4096):
        alpha = 1.0 if bound is cpc else mlcpc_lower_alpha(m, m)
        results.append(moments(closed_form, m, alpha, 0.5))
    for fewer, more in itertools.pairwise(results):
        assert fewer.mean < more.mean < math.log(2)
        assert fewer.variance > more.variance > 0
    assert results[-1].mean == pytest.approx(math.log(2), abs=0.01)
