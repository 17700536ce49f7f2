"""Weights cast together against autocast, layer by layer: the same bits."""

import pytest
import torch
from torch import nn

from annulus.encoders.mixed_precision import _Cast, cast_together


def test_outputs_gradients_and_statistics_are_those_of_autocast(generator):
    x, results = torch.randn(6, 3, 8, 8, generator=generator), []
    for call in (lambda net: cast_together(net, x, torch.bfloat16), lambda net: net(x)):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            convs = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, bias=False), nn.Flatten()]
            net = nn.Sequential(*convs, nn.Linear(64, 5)).to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            result = call(net)
        result.float().square().sum().backward()
        gradients = {f"{name}.grad": weight.grad for name, weight in net.named_parameters()}
        results.append({"output": result} | gradients | net.state_dict())
        for name, weight in net.named_parameters():
            assert weight.grad.dtype == weight.dtype == torch.float32
            assert weight.grad.stride() == weight.stride(), name
    assert results[0]["output"].dtype == torch.bfloat16
    torch.testing.assert_close(*results, rtol=0, atol=0)


@pytest.mark.parametrize("layer", [nn.Linear(4, 3), nn.Identity()])
def test_a_layer_alone_or_nothing_to_cast(layer, generator):
    x = torch.randn(5, 4, generator=generator)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(cast_together(layer, x, torch.bfloat16), layer(x))


def test_two_layers_may_share_a_weight_and_an_error_leaves_the_weights(generator):
    net = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(7, 2))
    net[1].weight = net[0].weight
    before, x = dict(net.named_parameters()), torch.randn(5, 4, generator=generator)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(cast_together(net[:2], x, torch.bfloat16), net[:2](x))
        with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
            cast_together(net, x, torch.bfloat16)
    assert all(weight is before[name] for name, weight in net.named_parameters())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_second_derivatives_are_those_of_a_cast_layer_by_layer(dtype, generator):
    """The loss also has a term that is linear in a weight's cast, whose gradient has no graph."""
    net = nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)).to(dtype)
    x, weights = torch.randn(5, 4, dtype=torch.float64, generator=generator), tuple(net.parameters())

    def loss(*weights):
        first, bias, second, last = _Cast.apply(torch.float64, *weights)
        return ((x @ first.T + bias).tanh() @ second.T + last).square().sum() + first.sum()

    def plain(*weights):
        first, bias, second, last = (weight.double() for weight in weights)
        return ((x @ first.T + bias).tanh() @ second.T + last).square().sum() + first.sum()

    results = []
    for function in (loss, plain):
        first = torch.autograd.grad(function(*weights), weights, create_graph=True)
        assert [gradient.dtype for gradient in first] == [dtype] * 4
        results.append(torch.autograd.grad(sum(gradient.square().sum() for gradient in first), weights))
    torch.testing.assert_close(*results)
    if dtype == torch.float64:
        assert torch.autograd.gradgradcheck(loss, weights)
