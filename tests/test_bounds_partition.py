"""The partition function's five policies against plain sums, from batch to batch and through a checkpoint."""

import pytest
import torch
from method_cases import NORMALISERS
from plain_objectives import plain_partition, present_of

from annulus.bounds.partition import PartitionFunction

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
each_policy = pytest.mark.parametrize("policy", NORMALISERS)


def batch_of(generator):
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
        scores, negatives = batch_of(generator)
        scores = scores[:, :columns]
        expected, z = plain_partition(partition, z, scores, present_of(negatives))
        found = partition(scores, negatives).exp()
        torch.testing.assert_close(found.expand(4), torch.tensor([float(each) for each in expected]).double())
        assert (z is None) == partition.log_z.isnan()
        assert found.shape == ((4,) if policy == "exact" else ())


@each_policy
def test_the_estimate_is_finite_for_any_score_a_constant_to_autograd_and_stays_as_it_is(policy, generator):
    partition = PartitionFunction(policy, constant=2.25, rate=0.75).double()
    extreme = torch.tensor([[800.0, 900.0, -900.0], [700.0, -1000.0, 0.0]], dtype=torch.float64)
    assert all(partition(extreme, extreme[:, :2]).isfinite().all() for _ in range(2))
    scores, negatives = (each.requires_grad_() for each in batch_of(generator))
    first = partition(scores, negatives)
    assert not first.requires_grad
    before = first.clone()
    partition(*batch_of(generator))
    assert torch.equal(first, before), "the next batch does not write into what a loss may hold"
    assert not partition.log_z.requires_grad
