"""Critics against explicit pairs, and the pairs that each critic can distinguish."""

import pytest
import torch
from method_cases import TEMPERATURE

from annulus.bounds.infonce import infonce
from annulus.methods.critics import build_critic

pytestmark = pytest.mark.usefixtures("untouched_global_randomness")
DIM = 5
# mutualinfo section 2, critic designs: the two halves of the first layer, and the further layers.
HIDDEN = {
    "concat-linear": [(1, DIM), (1, DIM)],
    "mlp-1": [(128, DIM), (128, DIM), (1, 128)],
    "mlp-2": [(128, DIM), (128, DIM), (128, 128), (1, 128)],
}
each_critic = pytest.mark.parametrize("name", ["dot", "bilinear", *HIDDEN])


def make_critic(name, seed=0):
    return build_critic(name, DIM, TEMPERATURE, seed).double()


@pytest.fixture
def pairs(generator):
    """Three queries and seven rows."""
    drawn = torch.randn(10, DIM, generator=generator, dtype=torch.float64)
    return drawn[:3].clone().requires_grad_(), drawn[3:]


def explicit(critic, query, row):
    """Score of one pair: the product over the temperature, or an MLP of [z; m] with the first layer's halves joined."""
    if not hasattr(critic, "rest"):
        return query @ getattr(critic, "weight", torch.eye(DIM, dtype=torch.float64)) @ row / TEMPERATURE
    first = torch.cat([critic.of_query.weight, critic.of_row.weight], dim=1)
    value = first @ torch.cat([query, row]) + critic.of_query.bias
    for layer in critic.rest:
        value = value.clamp(min=0) if isinstance(layer, torch.nn.ReLU) else layer.weight @ value + layer.bias
    return value.squeeze()


@each_critic
def test_scores_are_those_of_each_pair_by_itself(name, pairs, generator):
    """Bilinear starts as the dot product; here it gets another weight."""
    critic, (queries, rows) = make_critic(name), pairs
    if name in HIDDEN:
        assert [tuple(weight.shape) for weight in critic.parameters() if weight.ndim == 2] == HIDDEN[name]
    if name == "bilinear":
        assert torch.equal(critic.weight, torch.eye(DIM, dtype=torch.float64))
        critic.weight.data += torch.randn(DIM, DIM, generator=generator, dtype=torch.float64)
    scores = critic(queries, rows)
    actual, expected = (
        scores.every(None)[0],
        torch.stack([torch.stack([explicit(critic, query, row) for row in rows]) for query in queries]),
    )
    torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(scores.table, expected)
    ours, theirs = (torch.autograd.grad(each.square().sum(), queries)[0] for each in (actual, expected))
    torch.testing.assert_close(ours, theirs)


@each_critic
def test_only_concatenation_with_one_linear_layer_cannot_tell_which_row_goes_with_which_query(name, pairs):
    """Its score is a term of z plus a term of m. In a softmax over rows the term of z cancels and has no gradient."""
    critic, (queries, rows) = make_critic(name), pairs
    scores = critic(queries, rows).every(None)[0]
    [gradient] = torch.autograd.grad(infonce(scores[:, :1], scores[:, 1:]), queries)
    order = scores.argsort(dim=1)
    if name == "concat-linear":
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))
        assert (order == order[0]).all(), "every query ranks the rows alike"
    else:
        assert (gradient.norm(dim=1) > 1e-3).all()


@each_critic
def test_every_weight_learns_and_the_seed_repeats_what_is_drawn(name, pairs):
    first, again, other = ([*make_critic(name, seed).parameters()] for seed in (0, 0, 1))
    assert all(map(torch.equal, first, again))
    assert any(not torch.equal(*weights) for weights in zip(first, other, strict=True)) == (name in HIDDEN)
    critic = make_critic(name)
    if name != "dot":
        critic(*pairs).every(None)[0].square().sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in critic.parameters())
