"""Networks compiled by torch take the same steps as uncompiled ones. GPUs: tests/test_gpu.py."""

from copy import deepcopy

import pytest
import torch
from compiled_steps import compare_steps

import annulus
from annulus.device import compiling
from annulus.device.compiling import compiled, replayed
from annulus.device.graphs import Graphed


def test_torch_is_asked_where_the_user_asks_and_for_the_sizes_of_the_first_use(monkeypatch):
    options, network = [], torch.nn.Linear(2, 2)
    monkeypatch.setattr(torch, "compile", lambda call, **kwargs: options.append(kwargs) or call)
    for mode, calls, graphs in (("no", 0, False), ("yes", 1, False), ("graphs", 2, True)):
        monkeypatch.setenv("ANNULUS_COMPILE", mode)
        assert compiled(abs)(-1) == 1
        assert options == [{"dynamic": False}] * calls
        assert isinstance(replayed(network, network), Graphed) == graphs
    monkeypatch.setattr(compiling, "world_size", lambda: 2)
    assert replayed(network, network) is network, "several processes send each other statistics"


@pytest.mark.parametrize("mode", ["no", "yes", "graphs"])
def test_a_copy_of_a_method_embeds_by_its_own_weights(mode, monkeypatch):
    monkeypatch.setenv("ANNULUS_COMPILE", mode)
    monkeypatch.setattr(torch, "compile", lambda call, dynamic: lambda *arguments: call(*arguments))
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    method = annulus.MoCo.create(network, images=10, dim=4, queue=8, shuffle_groups=1)
    copy, views = deepcopy(method), torch.rand(4, 3, 2, 2)
    before = method.embed(views)[0][0].detach()
    for networks in (copy.encoder, copy.keys.encoder):
        for weight in networks.parameters():
            torch.nn.init.ones_(weight)
    torch.testing.assert_close(method.embed(views)[0][0], before)
    for embedded in (copy.embed(views)[0][0], copy.keys(views)[0]):
        torch.testing.assert_close(embedded, torch.full((4, 4), 0.5), msg="all weights are 1, and so all numbers alike")


@pytest.mark.slow
def test_compiled_steps_are_those_of_plain_ones_and_each_network_is_one_graph_compiled_once():
    """MoCo has a network that learns, and one without gradient that is normalised in groups."""
    steps = compare_steps("moco", "cpu", "yes")
    for name, plain in steps["plain"].items():
        assert steps["compiled"][name] == pytest.approx(plain, rel=1e-5, abs=1e-7), name
    assert steps["graphs"] == 2
    assert not steps["breaks"]
    normalisations = [count for name, count in steps["operators"].items() if "grouped_batch_norm" in name]
    assert normalisations == [4], "one for each layer of the key encoder, whose groups a compiler would take apart"
