"""Weights cast together against autocast, layer by layer: the same bits."""

import pytest
import torch
from torch import nn

from annulus.encoders.mixed_precision import cast_together


def test_outputs_gradients_and_statistics_are_those_of_autocast(generator):
    x, found = torch.randn(6, 3, 8, 8, generator=generator), []
    for call in (lambda net: cast_together(net, x, torch.bfloat16), lambda net: net(x)):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            convs = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 3, bias=False), nn.Flatten()]
            net = nn.Sequential(*convs, nn.Linear(64, 5)).to(memory_format=torch.channels_last)
        with torch.autocast("cpu", torch.bfloat16):
            result = call(net)
        result.float().square().sum().backward()
        gradients = {f"{name}.grad": weight.grad for name, weight in net.named_parameters()}
        found.append({"output": result} | gradients | net.state_dict())
        for name, weight in net.named_parameters():
            assert weight.grad.dtype == weight.dtype == torch.float32
            assert weight.grad.stride() == weight.stride(), name
    assert found[0]["output"].dtype == torch.bfloat16
    torch.testing.assert_close(*found, rtol=0, atol=0)


@pytest.mark.parametrize("layer", [nn.Linear(4, 3), nn.Identity()])
def test_a_layer_alone_or_nothing_to_cast(layer, generator):
    x = torch.randn(5, 4, generator=generator)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(cast_together(layer, x, torch.bfloat16), layer(x))
