"""Toys: their stated information and densities, and samples that agree with them."""

import math

import pytest
import torch
from torch.distributions import MultivariateNormal, Normal

from annulus.errors import InputError
from annulus_lab.studies.estimators.toys import (
    CorrelatedGaussians,
    DiscreteTable,
    Staircase,
    SumOfGaussians,
    binary_pair,
)

pytestmark = pytest.mark.usefixtures("untouched_global_randomness", "in_float64")

TABLE = torch.tensor([[0.1, 0.2, 0.0], [0.25, 0.05, 0.4]], dtype=torch.float64)
GAUSSIANS = {
    "one dimension": CorrelatedGaussians(1, 0.6),
    "negative": CorrelatedGaussians(1, -0.6),
    "three dimensions": CorrelatedGaussians(3, 0.5),
    "sum": SumOfGaussians(),
}
every_gaussian = pytest.mark.parametrize("toy", GAUSSIANS.values(), ids=GAUSSIANS)


def moments(toy) -> torch.Tensor:
    """The covariance of one dimension of (x, y) that the paper states."""
    if isinstance(toy, SumOfGaussians):
        return torch.tensor([[2.0, 0.4], [0.4, 2.0]])
    return torch.tensor([[1.0, toy.rho], [toy.rho, 1.0]])


def plain_log_ratio(toy, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """log p(x, y) - log p(x) - log p(y), one pair and one dimension at a time, by torch's densities."""
    covariance = moments(toy)
    joint = MultivariateNormal(torch.zeros(2), covariance)
    x_density, y_density = (Normal(torch.tensor(0.0), covariance[i, i].sqrt()) for i in (0, 1))
    log_ratio = torch.zeros(len(x), len(y))
    for i, one in enumerate(x):
        for j, other in enumerate(y):
            for a, b in zip(one, other, strict=True):
                log_ratio[i, j] += joint.log_prob(torch.stack([a, b])) - x_density.log_prob(a) - y_density.log_prob(b)
    return log_ratio


@every_gaussian
def test_the_log_ratio_is_joint_minus_product_for_every_x_with_every_y(toy, generator):
    x = toy.sample(4, generator).x
    y = 2 * toy.sample(6, generator).y
    torch.testing.assert_close(toy.log_ratio(x, y), plain_log_ratio(toy, x, y), rtol=1e-10, atol=1e-10)


@every_gaussian
def test_samples_have_the_stated_moments_and_independent_dimensions(toy, generator):
    n = 50_000
    x, y = toy.sample(n, generator)
    columns = torch.cat([x, y], dim=1)
    expected = torch.kron(moments(toy), torch.eye(x.shape[1]))
    # A covariance of n Gaussian pairs has the standard error sqrt((c_ii c_jj + c_ij^2)/n).
    error = ((expected.diag()[:, None] * expected.diag() + expected**2) / n).sqrt()
    assert ((columns.T.cov() - expected).abs() < 4.5 * error).all()
    assert (columns.mean(dim=0).abs() < 4.5 * (expected.diag() / n).sqrt()).all()


def test_the_information_has_its_closed_form():
    for toy, nats, tolerance in (
        (SumOfGaussians(), 0.02041, 5e-6),  # Wu et al. 2020, arXiv:2005.13149
        (CorrelatedGaussians(1000, 0.2), 20.41, 5e-3),  # Song and Ermon 2020, arXiv:2007.09852
        (CorrelatedGaussians(20, 0.0), 0.0, 0.0),
        (CorrelatedGaussians(3, -0.6), -3 * math.log(0.8), 1e-12),
        (binary_pair(0.1), -0.1 * math.log(0.1) - 0.9 * math.log(0.9), 1e-12),
    ):
        assert toy.information == pytest.approx(nats, abs=tolerance)


def test_a_number_of_nats_has_mlcpc_s_rho_and_comes_back():
    for nats, rho in ((2, 0.4258), (10, 0.7951)):  # in 20 dimensions
        toy = CorrelatedGaussians.with_information(20, float(nats))
        assert (toy.dims, toy.rho) == (20, pytest.approx(rho, abs=5e-5))
    for nats in (0.0, 1e-12, 1e-6, 15.0):
        assert CorrelatedGaussians.with_information(2, nats).information == pytest.approx(nats, rel=1e-9, abs=0)


def test_more_nats_than_the_dimensions_hold_are_refused_with_the_way_out():
    with pytest.raises(InputError, match=r"^25 nats need a correlation of 1, to the .* digit, in 1 dim.*more$"):
        CorrelatedGaussians.with_information(1, 25.0)


def test_a_table_s_log_ratio_is_exact_and_impossible_pairs_are_hugely_negative_but_present():
    """A bound would treat a score of -inf as absent."""
    log_ratio = DiscreteTable(TABLE).log_ratio(torch.eye(2), torch.eye(3))
    for a in range(2):
        for b in range(3):
            p = TABLE[a, b].item()
            if p == 0:
                assert -math.inf < log_ratio[a, b] <= -1e4
            else:
                expected = math.log(p / TABLE[a].sum().item() / TABLE[:, b].sum().item())
                assert log_ratio[a, b].item() == pytest.approx(expected, rel=1e-12)
    present = TABLE > 0
    assert DiscreteTable(TABLE).information == pytest.approx((TABLE * log_ratio)[present].sum().item(), rel=1e-12)
    independent = TABLE.sum(dim=1, keepdim=True) * TABLE.sum(dim=0)
    assert (independent * log_ratio.exp()).sum().item() == pytest.approx(1, rel=1e-12)


def test_a_table_s_values_that_never_occur_change_no_information():
    larger = torch.zeros(3, 4)
    larger[torch.tensor([0, 2])[:, None], torch.tensor([0, 1, 3])] = TABLE
    table = DiscreteTable(larger)
    assert table.information == pytest.approx(DiscreteTable(TABLE).information, rel=1e-12)
    assert table.log_ratio(torch.eye(3), torch.eye(4)).isfinite().all()


def test_a_table_s_samples_are_one_hot_and_as_frequent_as_it_says(generator):
    n = 40_000
    x, y = DiscreteTable(TABLE).sample(n, generator)
    for one_hot in (x, y):
        assert set(one_hot.unique().tolist()) == {0, 1}
        assert (one_hot.sum(dim=1) == 1).all()
    shares = (x.T @ y / n).double()
    assert ((shares - TABLE).abs() <= 4.5 * (TABLE * (1 - TABLE) / n).sqrt()).all()
    assert shares[0, 2] == 0


def test_a_staircase_climbs_after_each_level_s_steps():
    """A small version of mlcpc 5.1: 2, 4 and 6 nats for four steps each."""
    staircase = Staircase(20, [2.0, 4.0, 6.0], 4)
    assert staircase.steps == 12
    levels = [staircase.at(step).information for step in range(12)]
    assert levels == pytest.approx([2.0] * 4 + [4.0] * 4 + [6.0] * 4, rel=1e-12)
    assert all(staircase.at(step).dims == 20 for step in (0, 11))
