"""Bounds: closed forms, plain loops in float64, gradients, and what the papers' theorems promise."""

import itertools
import math

import pytest
import torch
from jaxtyping import TypeCheckError

from annulus.bounds import infonce

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")


@pytest.fixture
def scores(generator):
    """Positive and negative scores of 6 queries, of the size that a temperature of 0.07 makes."""
    drawn = 14 * torch.rand(6, 8, generator=generator, dtype=torch.float64) - 7
    return drawn[:, 0], drawn[:, 1:]


def plain_infonce(positive, negatives):
    """mutualinfo section 2, IR-nce without its 1/K, as a loss: -(s_i - log sum_j exp s_j), mean over i."""
    losses = []
    for own, others in zip(positive.tolist(), negatives.tolist(), strict=True):
        losses.append(-(own - math.log(math.exp(own) + sum(math.exp(score) for score in others))))
    return sum(losses) / len(losses)


def test_infonce_equals_the_plain_loop(scores):
    assert infonce(*scores).item() == pytest.approx(plain_infonce(*scores), rel=1e-12)


@pytest.mark.parametrize("k", [1, 7, 4096])
def test_infonce_at_chance_is_log_of_the_number_of_candidates(k):
    scores = torch.full((5, k + 1), 3.0, dtype=torch.float64)
    assert infonce(scores[:, 0], scores[:, 1:]).item() == pytest.approx(math.log(1 + k), rel=1e-12)


@pytest.mark.parametrize("k", [1, 7, 4096])
@pytest.mark.parametrize("lead", [0.0, 5.0, 50.0, 1e4])
def test_the_estimate_never_exceeds_log_of_the_number_of_candidates(k, lead, generator):
    positive = lead + torch.randn(64, generator=generator)
    negatives = torch.randn(64, k, generator=generator)
    assert infonce(positive, negatives) >= 0  # so that log(1 + k) - loss <= log(1 + k), in float32 too


def test_scores_of_any_size_give_a_finite_loss():
    big = torch.tensor([1e4, -1e4])
    assert infonce(big, torch.tensor([[0.0], [0.0]])).item() == pytest.approx(5000.0)


def test_a_common_shift_of_all_scores_and_the_order_of_negatives_change_nothing(scores):
    positive, negatives = scores
    loss = infonce(positive, negatives)
    torch.testing.assert_close(infonce(positive + 9, negatives + 9), loss)
    torch.testing.assert_close(infonce(positive, negatives.flip(1)), loss)


def test_an_absent_negative_adds_nothing_to_the_loss_or_the_gradient(scores):
    positive, negatives = scores
    padded = torch.cat([negatives, torch.full((6, 3), -torch.inf, dtype=torch.float64)], dim=1)
    padded.requires_grad_()
    loss = infonce(positive, padded)
    torch.testing.assert_close(loss.detach(), infonce(positive, negatives))
    loss.backward()
    assert (padded.grad[:, 7:] == 0).all()
    assert padded.grad.isfinite().all()


def test_gradients_are_the_softmax_minus_the_positive(scores):
    positive, negatives = (part.clone().requires_grad_() for part in scores)
    infonce(positive, negatives).backward()
    probabilities = torch.cat([positive[:, None], negatives], dim=1).softmax(dim=1).detach() / 6
    torch.testing.assert_close(positive.grad, probabilities[:, 0] - 1 / 6)
    torch.testing.assert_close(negatives.grad, probabilities[:, 1:])


def test_gradients_agree_with_finite_differences(scores):
    assert torch.autograd.gradcheck(infonce, [part.clone().requires_grad_() for part in scores])


def test_one_query_s_loss_does_not_depend_on_the_others(scores):
    positive, negatives = scores
    each = [infonce(positive[i : i + 1], negatives[i : i + 1]) for i in range(6)]
    torch.testing.assert_close(infonce(positive, negatives), torch.stack(each).mean())


def test_without_augmentation_images_cannot_be_told_apart(generator):
    """mutualinfo Thm 2.1: permuting embeddings and bank rows together leaves the objective as it is."""
    anchors = torch.randn(7, 4, generator=generator, dtype=torch.float64)
    rows = torch.randn(7, 4, generator=generator, dtype=torch.float64)

    def objective(order):
        scores = anchors[order] @ rows[order].T
        others = scores[~torch.eye(7, dtype=torch.bool)].view(7, 6)
        return infonce(scores.diag(), others)

    expected = objective(torch.arange(7))
    for _ in range(5):
        torch.testing.assert_close(objective(torch.randperm(7, generator=generator)), expected)


@pytest.mark.parametrize("k", [1, 15, 255])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.8])
def test_the_estimate_is_below_the_information_and_close_with_the_true_critic(k, correlation, generator):
    """Two Gaussians with I = -log(1 - r^2) / 2; the critic is their true log density ratio, untrained."""
    information = -math.log(1 - correlation**2) / 2

    def critic(x, y):
        variance = 1 - correlation**2
        return -((y - correlation * x) ** 2) / (2 * variance) + y**2 / 2 - math.log(variance) / 2

    x = torch.randn(20_000, generator=generator, dtype=torch.float64)
    noise = torch.randn(20_000, generator=generator, dtype=torch.float64)
    y = correlation * x + math.sqrt(1 - correlation**2) * noise
    others = torch.randn(20_000, k, generator=generator, dtype=torch.float64)
    estimate = math.log(1 + k) - infonce(critic(x, y), critic(x[:, None], others)).item()
    assert estimate < information + 0.03  # five standard errors
    if k == 255:
        assert estimate == pytest.approx(information, abs=0.03)


def test_restricting_negatives_to_low_scores_breaks_the_bound():
    """ring A.1 (statement 5): x and y independent, so no information, yet an estimate near log(1 + k)."""
    scores = torch.linspace(-7, 7, 1001, dtype=torch.float64)  # f(x, y) of independent pairs
    lowest = scores[:10]  # q on the lowest 1 %
    draws = torch.tensor(list(itertools.combinations_with_replacement(lowest.tolist(), 3)))
    positive, negatives = (
        scores.repeat_interleave(len(draws)),
        draws.repeat(len(scores), 1).to(torch.float64),
    )
    estimate = math.log(4) - infonce(positive, negatives).item()
    assert 1.0 < estimate <= math.log(4)


def test_wrong_shapes_fail_while_tests_run():
    """The signatures are checked (conftest.py), so no test can pass with shapes that they exclude."""
    with pytest.raises(TypeCheckError):
        infonce(torch.zeros(5), torch.zeros(4, 7))
    with pytest.raises(TypeCheckError):
        infonce(torch.zeros(5), torch.zeros(5, 7, dtype=torch.int64))
