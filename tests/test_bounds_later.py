"""Losses after the five papers, each against the paper's sums in plain loops.

They were compared outside of this project with public code, on the same 32 embeddings in float64 (30 November 2026).
The largest differences of a loss: HCL (joshr17/HCL, twelve pairs of beta and tau_plus) 9e-16, debiased (chingyaoc/DCL)
4e-16, DCL and DCLW (raminnakhli/Decoupled-Contrastive-Learning) 0, SupCon (HobbitLong/SupContrast) 4e-16, the sigmoid
loss (google-research/big_vision, by JAX) 2e-16 of its value. The schedule of the temperature
(Annusha/temperature_schedules, 2,000 epochs) differs by 2e-15. MoCHi has no public code of its authors.
"""

import math

import pytest
import torch
from settings import read, refusal
from settings import run as small_run

from annulus.bounds.dcl import DCL, dcl
from annulus.bounds.hcl import HCL, hcl
from annulus.bounds.infonce import InfoNCE, infonce
from annulus.bounds.sigmoid import Sigmoid, sigmoid
from annulus.bounds.simple import Simple, simple
from annulus.bounds.supcon import SupCon, supcon
from annulus.errors import InputError
from annulus.methods.contrast import Contrast
from annulus.methods.contrast_config import ContrastConfig
from annulus.negatives.neighbours import ClassNeighbours, CloseNeighbours
from annulus.training.limits import check_choices

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")

CPU = torch.device("cpu")
QUERIES, NEGATIVES, TEMPERATURE = 7, 12, 0.5
NEIGHBOURS = CloseNeighbours(share=0.1, start=0.0, until=0.5, in_denominator=True)


@pytest.fixture
def cosines(generator):
    """A row per query: the positive's, then the negatives'."""
    return 2 * torch.rand(QUERIES, 1 + NEGATIVES, generator=generator, dtype=torch.float64) - 1


@pytest.fixture
def scores(cosines):
    return (cosines / TEMPERATURE).requires_grad_()


def absent(scores, *columns):
    """Scores without these columns of the first query."""
    mask = torch.zeros_like(scores, dtype=torch.bool)
    mask[0, list(columns)] = True
    return scores.masked_fill(mask, -torch.inf)


def numbers(row):
    return [float(score) for score in row if score > -math.inf]


def differentiable(function, *scores):
    return torch.autograd.gradcheck(function, scores)


# --- DCL ----------------------------------------------------------------------------------------------


def test_dcl_is_the_sum_of_the_paper_without_the_positive(scores):
    positives, negatives = scores[:, :1], absent(scores[:, 1:], 3)
    plain = [
        -near + math.log(sum(map(math.exp, numbers(far))))
        for [near], far in zip(positives.tolist(), negatives.tolist(), strict=True)
    ]
    assert DCL().loss(positives, negatives).item() == pytest.approx(sum(plain) / QUERIES, rel=1e-12)
    assert differentiable(dcl, positives, negatives)


def test_dclw_weighs_a_positive_by_the_batch_s_mean_and_the_weight_is_a_constant(scores, cosines):
    sigma, own = 0.3, cosines[:, 0].tolist()
    mean = sum(math.exp(cosine / sigma) for cosine in own) / QUERIES
    weights = [2 - math.exp(cosine / sigma) / mean for cosine in own]
    assert sum(weights) == pytest.approx(QUERIES)
    plain = [
        -weight * row[0] + math.log(sum(map(math.exp, row[1:])))
        for weight, row in zip(weights, scores.tolist(), strict=True)
    ]
    loss = DCL(sigma=sigma).at(TEMPERATURE).loss(scores[:, :1], scores[:, 1:])
    assert loss.item() == pytest.approx(sum(plain) / QUERIES, rel=1e-12)
    [slope] = torch.autograd.grad(loss, scores)
    torch.testing.assert_close(slope[:, 0], -torch.tensor(weights, dtype=torch.float64) / QUERIES)


# --- debiased and hard ----------------------------------------------------------------------------------


def plain_hcl(positives, negatives, beta, tau_plus):
    """The authors' Ng, query by query: weights of mean one, less the class's share, at least the minimum."""
    losses = []
    for [near], far in zip(positives.tolist(), map(numbers, negatives.tolist()), strict=True):
        weights = [math.exp(beta * score) for score in far]
        mean = sum(weights) / len(weights)
        hard = sum(weight / mean * math.exp(score) for weight, score in zip(weights, far, strict=True))
        rest = (hard - len(far) * tau_plus * math.exp(near)) / (1 - tau_plus)
        rest = max(rest, len(far) * math.exp(-1 / TEMPERATURE))
        losses.append(-math.log(math.exp(near) / (math.exp(near) + rest)))
    return sum(losses) / len(losses)


@pytest.mark.parametrize("beta", [0.0, 0.5, 2.0])
@pytest.mark.parametrize("tau_plus", [0.0, 0.1, 0.6])
def test_hcl_is_the_authors_sum_also_where_it_is_at_its_least_value(beta, tau_plus, scores):
    positives, negatives = scores[:, :1], absent(scores[:, 1:], 0, 5)
    loss = HCL(beta=beta, tau_plus=tau_plus).at(TEMPERATURE).loss(positives, negatives)
    assert loss.item() == pytest.approx(plain_hcl(positives, negatives, beta, tau_plus), rel=1e-12)
    [slope] = torch.autograd.grad(loss, scores)
    assert slope.isfinite().all()
    if tau_plus == 0.6 and beta < 2:
        clamped = (slope[:, 1:] == 0).all(dim=1)  # the least value is a constant
        assert 0 < clamped.sum() < QUERIES
    whole = scores[:, 1:]
    assert differentiable(lambda near, far: hcl(near, far, beta, tau_plus, -1 / TEMPERATURE), positives, whole)


def test_without_a_class_prior_and_a_concentration_hcl_is_infonce_bit_for_bit(generator):
    positives, negatives = 14 * torch.randn(64, 1, generator=generator), 14 * torch.randn(64, 33, generator=generator)
    loss = HCL(beta=0.0, tau_plus=0.0).at(0.07).loss(positives, negatives)
    assert torch.equal(loss, infonce(positives, negatives))


def test_debiased_negatives_that_are_one_part_positives_are_unbiased_by_the_prior(generator):
    """A share tau_plus of k negatives has the positive's score; the corrected mean is the mean of the others."""
    near, far, k, tau_plus = 1.3, -0.4, 1000, 0.1
    negatives = torch.tensor([[near] * 100 + [far] * 900], dtype=torch.float64)
    loss = hcl(torch.tensor([[near]], dtype=torch.float64), negatives, 0.0, tau_plus, -2.0)
    assert loss.item() == pytest.approx(math.log(1 + k * math.exp(far - near)), rel=1e-12)


def test_a_large_beta_does_not_overflow_and_a_larger_one_is_refused(scores):
    positives, negatives = scores[:, :1].float(), scores[:, 1:].float()
    bound = HCL(beta=5000.0, tau_plus=0.0).at(TEMPERATURE)
    hardest = [math.log1p(NEGATIVES * math.exp(max(row[1:]) - row[0])) for row in scores.tolist()]
    assert bound.loss(positives, negatives).item() == pytest.approx(sum(hardest) / QUERIES, abs=0.02)
    with pytest.raises(InputError, match=r"beta 1e\+06 at temperature 0.5 overflows: .* give a beta of 8.39e\+04 or l"):
        HCL(beta=1e6, tau_plus=0.0).at(TEMPERATURE)
    assert "overflows" in refusal({"bound": "hcl", "bounds.hcl.beta": 1e9})
    assert "bounds.hcl.tau_plus" in refusal({"bounds.hcl.tau_plus": 1.0})
    with pytest.raises(InputError, match=r"tau_plus -0\.1: give a number from 0 below 1"):
        HCL(beta=1.0, tau_plus=-0.1)


@pytest.mark.parametrize("temperature", [0.07, TEMPERATURE, 2.0])
def test_the_largest_beta_rounds_a_score_by_a_hundredth_of_a_nat(temperature):
    """A score of (1 + beta)/temperature has 24 bits in float32."""
    largest = 0.01 * 2**24 * temperature - 1
    HCL(beta=0.999 * largest, tau_plus=0.0).at(temperature)
    with pytest.raises(InputError, match="overflows"):
        HCL(beta=1.001 * largest, tau_plus=0.0).at(temperature)


def test_hcl_has_a_finite_gradient_if_its_positive_is_far_above_all_negatives():
    """At temperature 0.01 scores reach 100, and e^200 overflows float32."""
    scores = torch.tensor([[100.0, -100.0, -100.0]], requires_grad=True)
    [slope] = torch.autograd.grad(hcl(scores[:, :1], scores[:, 1:], 1.0, 0.1, -100.0), scores)
    assert slope.abs().max() < 1e-6


# --- SupCon -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mean", ["outside", "inside"])
def test_supcon_is_the_mean_over_positives_of_the_paper(mean, scores):
    positives, negatives = absent(scores[:, :4], 2), absent(scores[:, 4:], 0)
    plain = []
    for near, far in zip(map(numbers, positives.tolist()), map(numbers, negatives.tolist()), strict=True):
        total = sum(map(math.exp, near + far))
        shares = [math.exp(score) / total for score in near]
        inside = -math.log(sum(shares) / len(near))
        plain.append(inside if mean == "inside" else sum(-math.log(share) for share in shares) / len(near))
    assert SupCon(mean=mean).loss(positives, negatives).item() == pytest.approx(sum(plain) / QUERIES, rel=1e-12)
    assert differentiable(lambda near, far: supcon(near, far, mean), scores[:, :4], scores[:, 4:])


def test_the_inside_form_has_the_gradient_of_infonce_and_the_outside_form_with_one_positive_is_infonce(scores):
    inside = torch.autograd.grad(supcon(scores[:, :4], scores[:, 4:], "inside"), scores)[0]
    torch.testing.assert_close(inside, torch.autograd.grad(infonce(scores[:, :4], scores[:, 4:]), scores)[0])
    single = supcon(scores[:, :1], scores[:, 1:], "outside")
    torch.testing.assert_close(single, infonce(scores[:, :1], scores[:, 1:]))


def test_supcon_in_a_run_takes_the_class_as_positives_and_refuses_them_outside_the_denominator():
    choices = {"bound": "supcon", "sampler": "other-class", "anneal": "none", "neighbours": "class"}
    history = small_run(choices | {"methods.ir.negatives": "all"}).run()
    assert history[0]["loss_nats"] == pytest.approx(math.log(70), abs=1.0)
    with pytest.raises(InputError, match="SupCon has every positive in its denominator, but in_den"):
        ContrastConfig(neighbours=ClassNeighbours(start=0.0, in_denominator=False), bound=SupCon(mean="inside"))


# --- sigmoid --------------------------------------------------------------------------------------------


def test_sigmoid_is_the_sum_over_pairs_with_their_sign_and_learns_scale_and_bias(scores):
    positives, negatives = scores[:, :1], absent(scores[:, 1:], 1)
    bound = Sigmoid(bias=-3.0).begin().double()
    bound.log_scale.data.fill_(0.2)
    pairs = [
        [(1, near[0]), *((-1, score) for score in numbers(far))]
        for near, far in zip(positives.tolist(), negatives.tolist(), strict=True)
    ]
    plain = [sum(math.log1p(math.exp(-sign * (math.exp(0.2) * score - 3.0))) for sign, score in row) for row in pairs]
    counts = torch.tensor([len(row) - 1 for row in pairs])
    estimate = bound.estimate(positives, negatives, 0.0, counts, lambda: scores.detach())
    assert estimate.loss.item() == pytest.approx(sum(plain) / QUERIES, rel=1e-12)
    ceiling = sum(math.log(len(row)) for row in pairs) / QUERIES
    assert estimate.bound_nats.item() == pytest.approx(ceiling - infonce(positives, negatives).item(), rel=1e-5)
    estimate.loss.backward()
    assert bound.log_scale.grad.abs() > 0 < bound.bias.grad.abs()
    assert differentiable(lambda near, far, bias: sigmoid(near[:, 0], far, bias), positives, scores[:, 1:], bound.bias)


def test_a_run_trains_scale_and_bias_and_a_resumed_one_has_them():
    training = small_run({"bound": "sigmoid", "sampler": "uniform", "anneal": "none"})
    training.run()
    bound = training.method.contrasts[0].bound
    assert bound.log_scale != 0
    assert bound.bias != -10
    again = small_run({"bound": "sigmoid", "sampler": "uniform", "anneal": "none"})
    again.load_state_dict(training.state_dict())
    assert again.method.contrasts[0].bound.bias == bound.bias


# --- the simple loss ------------------------------------------------------------------------------------


def test_the_simple_loss_is_the_difference_of_means_and_weighs_each_negative_alike(scores):
    positives, negatives = scores[:, :1], absent(scores[:, 1:], 0, 3)
    plain = [
        sum(numbers(far)) / len(numbers(far)) - near
        for [near], far in zip(positives.tolist(), negatives.tolist(), strict=True)
    ]
    assert Simple().loss(positives, negatives).item() == pytest.approx(sum(plain) / QUERIES, rel=1e-12)
    assert differentiable(simple, positives, scores[:, 1:])
    [gradient] = torch.autograd.grad(simple(positives, negatives), scores)
    for row, far in zip(gradient, negatives.tolist(), strict=True):
        share = 1 / len(numbers(far)) / QUERIES
        expected = [-1 / QUERIES, *(0.0 if score == -math.inf else share for score in far)]
        torch.testing.assert_close(row, torch.tensor(expected, dtype=row.dtype))


def test_the_simple_loss_is_the_limit_of_infonce_at_an_infinite_temperature(cosines):
    """t (InfoNCE(s/t) - log(k + 1)) goes to the mean of all candidates minus the positive, k/(k+1) of the loss."""
    hot, negatives = 1e6, cosines.shape[1] - 1
    limit = hot * (infonce(cosines[:, :1] / hot, cosines[:, 1:] / hot) - math.log(negatives + 1))
    expected = simple(cosines[:, :1], cosines[:, 1:]) * negatives / (negatives + 1)
    assert limit.item() == pytest.approx(expected.item(), abs=1e-5)


# --- choices without a meaning --------------------------------------------------------------------------


@pytest.mark.parametrize("bound", [DCL(sigma=0.5), HCL(beta=1.0, tau_plus=0.1)])
def test_a_loss_of_one_temperature_needs_it_and_refuses_a_schedule_and_a_critic_without_one(bound, scores):
    contrast = Contrast(ContrastConfig(bound=bound), 13, 0, CPU)
    index = torch.arange(QUERIES)
    with pytest.raises(InputError, match=r"needs the temperature of its scores; give Contrast\(\.\.\., temperature=T"):
        contrast(scores.detach(), index, self_index=index)
    tempered = Contrast(ContrastConfig(bound=bound), 13, 0, CPU, temperature=TEMPERATURE)
    assert tempered(scores.detach(), index, self_index=index).loss.isfinite()
    key = "dcl" if isinstance(bound, DCL) else "hcl"
    chosen = {"bound": key, "bounds.dcl.sigma": 0.5}
    assert "constant of one temperature" in refusal(chosen | {"anneal": "temperature"})
    assert "and critic: mlp-1 has none; take" in refusal(chosen | {"methods.ir.critic": "mlp-1"})
    assert "anneal: temperature changes the temperature, and critic" in refusal(
        {"anneal": "temperature", "methods.ir.critic": "mlp-2"}
    )
    with pytest.raises(InputError, match="takes one positive per query"):
        ContrastConfig(neighbours=NEIGHBOURS, bound=bound)
    run = read({"sampler": "uniform", "anneal": "none"})
    check_choices(run.method, InfoNCE(), run.sampler, run.annealing, run.neighbours)


def test_the_class_is_not_corrected_for_twice():
    oracle = {"bound": "hcl", "sampler": "other-class", "anneal": "none"}
    assert "tau_plus: 0.1 corrects for negatives of the query's class, and sampler: other-class draws none" in refusal(
        oracle
    )
    read(oracle | {"bounds.hcl.tau_plus": 0.0})


@pytest.mark.parametrize(
    "choice", [{"bound": "dcl"}, {"bound": "dcl", "bounds.dcl.sigma": 0.5}, {"bound": "hcl"}, {"bound": "simple"}]
)
@pytest.mark.parametrize("method", ["ir", "moco", "simclr"])
def test_a_run_of_each_method_trains_by_it(choice, method):
    plain = {"method": method, "sampler": "ring", "scales.tiny.pretrain.epochs": 1}
    by_it, by_infonce = (small_run(some).run()[0] for some in (plain | choice, plain | {"bound": "infonce"}))
    assert math.isfinite(by_it["loss_nats"])
    assert abs(by_it["loss_nats"] - by_infonce["loss_nats"]) > 0.01
