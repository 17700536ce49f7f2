"""Critics against the same networks written out pair by pair."""

import pytest
import torch
from torch import nn

from annulus_lab.studies.estimators.critics import Ideal, Joint, Separable, mlp
from annulus_lab.studies.estimators.toys import DiscreteTable

DIMS = 3


@pytest.fixture(autouse=True)
def seeded(in_float64):
    torch.manual_seed(0)  # initial weights come from the global generator, as torch's own do


@pytest.fixture
def points(generator):
    """Five points x and four points y, so that a transposed result has another shape."""
    return torch.randn(5, DIMS, generator=generator), torch.randn(4, DIMS, generator=generator)


def test_an_mlp_has_as_many_hidden_layers_as_it_says_with_relu_between(points):
    network = mlp(DIMS, 8, 2, 5)
    linear = [layer for layer in network if isinstance(layer, nn.Linear)]
    assert [(layer.in_features, layer.out_features) for layer in linear] == [(DIMS, 8), (8, 8), (8, 5)]
    x = points[0]
    first = (x @ linear[0].weight.T + linear[0].bias).clamp(min=0)
    second = (first @ linear[1].weight.T + linear[1].bias).clamp(min=0)
    torch.testing.assert_close(network(x), second @ linear[2].weight.T + linear[2].bias)


def test_separable_is_the_product_of_a_network_of_x_and_another_of_y(points):
    critic, (x, y) = Separable(DIMS, 8, 2, 6), points
    for i in range(5):
        for j in range(4):
            expected = sum(
                a * b for a, b in zip(critic.x_network(x[i]).tolist(), critic.y_network(y[j]).tolist(), strict=True)
            )
            assert critic(x, y)[i, j].item() == pytest.approx(expected, rel=1e-12)
    assert not torch.equal(critic.x_network(x), critic.y_network(x))


def test_with_a_temperature_separable_is_the_cosine_divided_by_it(points):
    x, y = points
    for temperature in (0.07, 2.5):
        critic = Separable(DIMS, 8, 2, 6, temperature)
        cosine = nn.functional.cosine_similarity(critic.x_network(x)[:, None], critic.y_network(y)[None], dim=2)
        torch.testing.assert_close(critic(x, y), cosine / temperature, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(critic.embed_x(x) @ critic.embed_y(y).T, critic(x, y))


@pytest.mark.parametrize("layers", [1, 3])
def test_joint_is_an_mlp_of_the_concatenation_with_the_same_weights(points, layers):
    critic, (x, y) = Joint(DIMS, 8, layers), points
    plain = mlp(2 * DIMS, 8, layers, 1)
    state = {f"{index}.{name}": None for index in range(0, 2 * layers + 1, 2) for name in ("weight", "bias")}
    state["0.weight"] = torch.cat([critic.x_layer.weight, critic.y_layer.weight], dim=1)
    state["0.bias"] = critic.x_layer.bias
    state |= dict(zip(list(state)[2:], critic.rest.parameters(), strict=True))
    plain.load_state_dict(state)
    for i in range(5):
        for j in range(4):
            torch.testing.assert_close(critic(x, y)[i, j], plain(torch.cat([x[i], y[j]]))[0], rtol=1e-12, atol=1e-12)


def test_joint_starts_as_a_layer_of_the_concatenation_does():
    """Weights are uniform within 1/sqrt(inputs), as in nn.Linear; the largest of many is close to this limit."""
    dims, hidden = 20, 256
    critic, layer = Joint(dims, hidden, 2), nn.Linear(2 * dims, hidden)
    for weight in (critic.x_layer.weight, critic.y_layer.weight):
        assert weight.abs().max().item() == pytest.approx(layer.weight.abs().max().item(), rel=1e-2)
        assert weight.std().item() == pytest.approx(layer.weight.std().item(), rel=0.05)
        assert abs(weight.mean().item()) < 5 * weight.std().item() / weight.numel() ** 0.5
    assert critic.x_layer.bias.abs().max().item() == pytest.approx((2 * dims) ** -0.5, rel=0.1)


def test_ideal_is_the_toy_s_log_ratio_with_nothing_to_train(generator):
    toy = DiscreteTable(torch.tensor([[0.1, 0.2, 0.0], [0.25, 0.05, 0.4]]))  # x and y have different numbers of values
    x, y = toy.sample(7, generator)
    assert torch.equal(Ideal(toy)(x, y), toy.log_ratio(x, y))
    assert list(Ideal(toy).parameters()) == []
