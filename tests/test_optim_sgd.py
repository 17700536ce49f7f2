"""SGD equals torch's to the bit, and FusedSGD too for parameters in any memory layout."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

from annulus.optim.sgd import SGD, FusedSGD

SETTINGS = {"lr": 0.1, "momentum": 0.9, "weight_decay": 1e-2}


def network() -> nn.Sequential:
    torch.manual_seed(0)
    layers = nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(144, 5)
    return nn.Sequential(*layers).to(memory_format=torch.channels_last)


def test_groups_and_parameters_without_a_gradient_are_as_in_torch(generator):
    ours, plain = network(), network()
    optimizers = []
    for kind, net in ((SGD, ours), (torch.optim.SGD, plain)):
        groups = {"params": net[:2].parameters(), "weight_decay": 0.1}, {"params": net[2:].parameters()}
        optimizers.append(kind(groups, lr=0.1, momentum=0.9))
    for step in range(5):
        images = torch.randn(6, 3, 8, 8, generator=generator)
        for net, optimizer in zip((ours, plain), optimizers, strict=True):
            optimizer.param_groups[1]["lr"] = 0.1 / (1 + step)
            optimizer.zero_grad()
            net(images).square().mean().backward()
            if step in (0, 3):
                net[0].weight.grad = None
            optimizer.step()
    assert all(torch.equal(*pair) for pair in zip(ours.parameters(), plain.parameters(), strict=True))


@pytest.mark.slow
def test_a_stage_that_trains_does_not_import_torchs_compiler():
    program = """
import sys
import torch
from annulus.optim.sgd import SGD, FusedSGD
from annulus.evals import linear
from annulus.training import loop
weight = torch.nn.Parameter(torch.ones(2))
for optimizer in (SGD([weight], lr=0.1), FusedSGD([weight], lr=0.1)):
    weight.square().sum().backward()
    optimizer.step()
assert not {"torch._dynamo", "torchvision", "scipy.stats"} & set(sys.modules)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1] / "src")}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True)


def test_steps_are_those_of_plain_sgd_to_the_bit_whatever_the_layout_and_a_resumed_run_goes_on(generator):
    ours, plain = network(), network()
    optimizers = FusedSGD(ours.parameters(), **SETTINGS), torch.optim.SGD(plain.parameters(), fused=True, **SETTINGS)
    for optimizer in optimizers:
        optimizer.param_groups[0]["lr"] = 0.03  # as a schedule does; the rate is part of the state
    for _ in range(4):
        images = torch.randn(6, 3, 8, 8, generator=generator)
        for each, optimizer in zip((ours, plain), optimizers, strict=True):
            optimizer.zero_grad()
            each(images).square().mean().backward()
            optimizer.step()
        state, optimizers = optimizers[0].state_dict(), (FusedSGD(ours.parameters(), **SETTINGS), optimizers[1])
        optimizers[0].load_state_dict(state)
    assert not ours[0].weight.is_contiguous()
    assert all(torch.equal(*pair) for pair in zip(ours.parameters(), plain.parameters(), strict=True))


def test_weights_that_were_moved_or_laid_out_anew_go_on_learning(generator):
    ours, plain = network(), network()
    optimizers = FusedSGD(ours.parameters(), **SETTINGS), torch.optim.SGD(plain.parameters(), **SETTINGS)
    for step in range(3):
        images = torch.randn(6, 3, 8, 8, generator=generator)
        if step == 2:
            ours.double()
        for net, optimizer in zip((ours, plain), optimizers, strict=True):
            if step == 1:
                for weight in net.parameters():
                    weight.data = 2 * weight.data.contiguous()
            optimizer.zero_grad()
            net(images.to(net[0].weight.dtype)).square().mean().backward()
            optimizer.step()
    for actual, expected in zip(ours.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(actual, expected, check_dtype=False, atol=1e-6, rtol=1e-5)


def test_the_stride_of_a_single_row_says_nothing():
    token = nn.Parameter(torch.zeros(1, 1, 4))
    token.grad = torch.ones(1, 1, 4).as_strided((1, 1, 4), (8, 8, 1))
    FusedSGD([token], lr=1.0).step()
    assert torch.equal(token.detach(), -torch.ones(1, 1, 4))
    plane = nn.Parameter(torch.zeros(4, 1, 3, 2).to(memory_format=torch.channels_last))
    gradient = torch.arange(24.0).view(4, 1, 3, 2)
    plane.grad = gradient.as_strided((4, 1, 3, 2), (6, 2, 2, 1))  # a sum of two gradients may have these strides
    FusedSGD([plane], lr=1.0).step()
    assert torch.equal(plane.detach(), -gradient)


def test_a_gradient_that_lies_otherwise_than_its_parameter_is_refused():
    weight = nn.Parameter(torch.zeros(4, 3, 3, 3).to(memory_format=torch.channels_last))
    weight.grad = torch.ones(4, 3, 3, 3)
    with pytest.raises(
        RuntimeError, match=r"of shape \(4, 3, 3, 3\) has strides \(27, 9, 3, 1\), its parameter \(27, 1, 9, 3\)"
    ):
        FusedSGD([weight], **SETTINGS).step()
