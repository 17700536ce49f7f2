"""Convolutions of small maps are those of torch, and only those that may be are replaced."""

import copy

import pytest
import torch
from torch import nn
from torchvision.models import resnet18

from annulus.encoders.config import EncoderConfig
from annulus.encoders.encoder import build_encoder
from annulus.encoders.small import SmallMapConv2d, for_small_maps


def both(inputs, outputs, stride, dtype=torch.double):
    """torch's convolution, and ours of the same weights."""
    plain = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False, dtype=dtype)
    plain = plain.to(memory_format=torch.channels_last)
    network = nn.Sequential(copy.deepcopy(plain))
    for_small_maps(network)
    return plain, network[0]


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(("height", "width"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 2)])
def test_value_and_gradients_are_those_of_torch(height, width, stride, generator):
    plain, ours = both(5, 7, stride)
    assert type(ours) is SmallMapConv2d
    maps = torch.randn(3, 5, height, width, generator=generator, dtype=torch.double)
    inputs = [maps.clone().requires_grad_() for _ in range(2)]
    found = [conv(some) for conv, some in zip((plain, ours), inputs, strict=True)]
    weights = torch.randn(found[0].shape, generator=generator, dtype=torch.double)
    for out in found:
        (out * weights).sum().backward()
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(inputs[1].grad, inputs[0].grad, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(ours.weight.grad, plain.weight.grad, rtol=1e-12, atol=1e-14)
    with torch.autocast("cpu"):  # lowers float32 only
        assert ours.float()(maps.float()).dtype == plain.float()(maps.float()).dtype == torch.bfloat16


def test_a_whole_network_has_torch_s_gradients_under_torch_s_names(generator):
    """In float32, after 18 layers, relative to each gradient's length. Strides: a fused optimiser reads both alike."""
    plain = resnet18().to(memory_format=torch.channels_last)
    ours = copy.deepcopy(plain)
    for_small_maps(ours)
    assert sum(type(module) is SmallMapConv2d for module in ours.modules()) == 16
    assert list(ours.state_dict()) == list(plain.state_dict())
    images = torch.randn(8, 3, 32, 32, generator=generator)
    for network in (plain, ours):
        network(images).square().mean().backward()
    for (name, mine), theirs in zip(ours.named_parameters(), plain.parameters(), strict=True):
        assert mine.grad.stride() == mine.stride(), name
        assert (mine.grad - theirs.grad).norm() <= 1e-4 * theirs.grad.norm() + 1e-7, name


def test_in_bfloat16_a_network_is_about_as_near_to_float32_as_torch_s(generator):
    plain = resnet18()
    ours = copy.deepcopy(plain)
    for_small_maps(ours)
    images, found = torch.randn(8, 3, 32, 32, generator=generator), []
    for network in (plain, ours):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            found.append(network(images))
        found[-1].float().square().mean().backward()
    exact = copy.deepcopy(plain)(images)
    errors = [(each.float() - exact).norm() / exact.norm() for each in found]
    assert errors[1] < 2 * errors[0] < 0.2, errors
    pairs = zip(ours.parameters(), plain.parameters(), strict=True)
    assert all(
        torch.cosine_similarity(mine.grad.flatten(), theirs.grad.flatten(), dim=0) > 0.9 for mine, theirs in pairs
    )


def test_an_encoder_s_weights_do_not_depend_on_the_replacement(monkeypatch):
    config = EncoderConfig("resnet18", "imagenet", "linear", 8, 32, None, (0.5,) * 3, (0.25,) * 3)
    found = build_encoder(config, 0)
    monkeypatch.setattr("annulus.encoders.encoder.for_small_maps", lambda network: None)
    plain = build_encoder(config, 0)
    assert not any(isinstance(module, SmallMapConv2d) for module in plain.modules())
    for mine, theirs in zip(found.state_dict().items(), plain.state_dict().items(), strict=True):
        assert mine[0] == theirs[0]
        assert torch.equal(mine[1], theirs[1])


@pytest.mark.parametrize(
    "change", [{"bias": True}, {"padding": 0}, {"groups": 2}, {"dilation": 2}, {"kernel_size": 5}, {"stride": 3}]
)
def test_other_convolutions_stay(change):
    settings = {"kernel_size": 3, "padding": 1, "bias": False} | change
    network = nn.Sequential(nn.Conv2d(4, 4, **settings))
    for_small_maps(network)
    assert type(network[0]) is nn.Conv2d
