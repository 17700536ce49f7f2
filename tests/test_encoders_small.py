"""Convolutions of small maps equal torch's, and no other convolutions are replaced."""

import copy

import pytest
import torch
from torch import nn
from torchvision.models import resnet18

from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import build_encoder
from annulus.encoders.small import SmallMapConv2d, for_small_maps


def both(network):
    """The network, and its copy with the convolutions of annulus."""
    ours = copy.deepcopy(network.to(memory_format=torch.channels_last))
    for_small_maps(ours)
    return network, ours


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2)])
def test_value_and_gradients_are_those_of_torch(height, width, stride, generator):
    convs = both(nn.Sequential(nn.Conv2d(5, 7, 3, stride=stride, padding=1, bias=False, dtype=torch.double)))
    assert [type(conv[0]) for conv in convs] == [nn.Conv2d, SmallMapConv2d]
    maps = torch.randn(3, 5, height, width, generator=generator, dtype=torch.double)
    weights = torch.randn(convs[0](maps).shape, generator=generator, dtype=torch.double)
    results = []
    for conv in convs:
        own = maps.clone().requires_grad_()
        out = conv(own)
        (out * weights).sum().backward()
        results.append([each.detach().clone() for each in (out, own.grad, conv[0].weight.grad)])
        with torch.autocast("cpu"):  # lowers float32 only
            low = conv.float()(maps.float())
        assert low.dtype == torch.bfloat16
        torch.testing.assert_close(low.double(), out.detach(), rtol=0.05, atol=0.05)
        low.float().sum().backward()
    torch.testing.assert_close(*results, rtol=1e-12, atol=1e-14)


def test_second_derivatives_are_those_of_torch(generator):
    convs = both(nn.Sequential(nn.Conv2d(2, 3, 3, padding=1, bias=False, dtype=torch.double)))
    maps, results = torch.randn(2, 2, 2, 2, generator=generator, dtype=torch.double), []
    for conv in convs:
        leaves = [maps.clone().requires_grad_(), conv[0].weight]
        firsts = torch.autograd.grad(conv(leaves[0]).exp().sum(), leaves, create_graph=True)
        results.append(torch.autograd.grad(sum(first.square().sum() for first in firsts), leaves))
    torch.testing.assert_close(*results)


def test_a_whole_network_has_torch_s_gradients_under_torch_s_names(generator):
    """In float64: a ReLU's input near zero has another sign in float32. Equal strides: a fused optimiser needs them."""
    plain, ours = both(resnet18().double())
    assert sum(type(module) is SmallMapConv2d for module in ours.modules()) == 16
    assert list(ours.state_dict()) == list(plain.state_dict())
    images = torch.randn(8, 3, 32, 32, generator=generator, dtype=torch.double)
    for network in (plain, ours):
        network(images).square().mean().backward()
    for (name, mine), theirs in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert mine.grad.stride() == mine.stride(), name
        assert (mine.grad - theirs.grad).norm() <= 1e-12 * theirs.grad.norm(), name


def test_an_encoder_s_weights_do_not_depend_on_the_replacement(monkeypatch):
    config = EncoderConfig("resnet18", "imagenet", "linear", 8, 32, None, (0.5,) * 3, (0.25,) * 3)
    weights = build_encoder(config, 0).state_dict()
    monkeypatch.setattr("annulus.encoders.encoder.for_small_maps", lambda network: None)
    plain = build_encoder(config, 0)
    assert not any(isinstance(module, SmallMapConv2d) for module in plain.modules())
    torch.testing.assert_close(plain.state_dict(), weights, rtol=0, atol=0)


@pytest.mark.parametrize(
    "change", [{"bias": True}, {"padding": 0}, {"groups": 2}, {"dilation": 2}, {"kernel_size": 5}, {"stride": 3}]
)
def test_other_convolutions_stay(change):
    settings = {"kernel_size": 3, "padding": 1, "bias": False} | change
    _, network = both(nn.Sequential(nn.Conv2d(4, 4, **settings)))
    assert type(network[0]) is nn.Conv2d
