"""Critics against explicit pairs, and what each can and cannot tell apart."""

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
CRITICS = ["dot", "bilinear", *HIDDEN]


def critic_of(name, seed=0):
    return build_critic(name, DIM, TEMPERATURE, seed).double()


@pytest.fixture
def pairs(generator):
    """Three queries and seven rows."""
    drawn = torch.randn(10, DIM, generator=generator, dtype=torch.float64)
    return drawn[:3].clone().requires_grad_(), drawn[3:]


def explicit(critic, query, row):
    """An MLP of [z; m] by its weights: the first layer's two halves stand side by side."""
    first = torch.cat([critic.of_query.weight, critic.of_row.weight], dim=1)
    value = first @ torch.cat([query, row]) + critic.of_query.bias
    for layer in critic.rest:
        value = value.clamp(min=0) if isinstance(layer, torch.nn.ReLU) else layer.weight @ value + layer.bias
    [value] = value
    return value


@pytest.mark.parametrize("name", HIDDEN)
def test_concatenations_are_an_mlp_of_each_pair_put_end_to_end(name, pairs):
    critic, (queries, rows) = critic_of(name), pairs
    assert [tuple(weight.shape) for weight in critic.parameters() if weight.ndim == 2] == HIDDEN[name]
    found = critic(queries, rows).every(None)[0]
    expected = torch.stack([torch.stack([explicit(critic, query, row) for row in rows]) for query in queries])
    torch.testing.assert_close(found, expected)
    ours, theirs = (torch.autograd.grad(each.square().sum(), queries)[0] for each in (found, expected))
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("name", ["dot", "bilinear"])
def test_products_are_those_of_each_pair_over_the_temperature(name, pairs, generator):
    """Bilinear starts as the dot product, and can leave it."""
    critic, (queries, rows) = critic_of(name), pairs
    weight = torch.eye(DIM, dtype=torch.float64)
    if name == "bilinear":
        assert torch.equal(critic.weight, weight)
        weight = torch.randn(DIM, DIM, generator=generator, dtype=torch.float64)
        critic.weight.data.copy_(weight)
    expected = torch.stack([torch.stack([query @ weight @ row / 0.2 for row in rows]) for query in queries.detach()])
    torch.testing.assert_close(critic(queries, rows).table, expected)


@pytest.mark.parametrize("name", CRITICS)
def test_only_concatenation_with_one_linear_layer_cannot_tell_which_row_goes_with_which_query(name, pairs):
    """Its score is a sum of one of z and one of m: in a softmax over rows the query cancels, and learns nothing."""
    critic, (queries, rows) = critic_of(name), pairs
    scores = critic(queries, rows).every(None)[0]
    loss = infonce(scores[:, :1], scores[:, 1:])
    [gradient] = torch.autograd.grad(loss, queries)
    order = scores.argsort(dim=1)
    if name == "concat-linear":
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))
        assert (order == order[0]).all(), "every query ranks the rows alike"
    else:
        assert (gradient.norm(dim=1) > 1e-3).all()


@pytest.mark.parametrize("name", CRITICS)
def test_every_weight_learns_and_the_seed_repeats_what_is_drawn(name, pairs):
    first, again, other = (critic_of(name, seed) for seed in (0, 0, 1))
    assert all(torch.equal(*weights) for weights in zip(first.parameters(), again.parameters(), strict=True))
    pairs_of_weights = zip(first.parameters(), other.parameters(), strict=True)
    assert any(not torch.equal(*weights) for weights in pairs_of_weights) == (name in HIDDEN)
    if name != "dot":
        first(*pairs).every(None)[0].square().sum().backward()
    assert all(weight.grad.abs().sum() > 0 for weight in first.parameters())
