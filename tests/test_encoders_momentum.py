"""The momentum copy: entry by entry, head included, buffers its own, no gradient."""

import pytest
import torch

from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.momentum import Following, momentum_copy

CONFIG = EncoderConfig("alexnet", "imagenet", "mlp-bn", 6, 32, None, mean=(0.5, 0.4, 0.3), std=(0.2, 0.3, 0.2))


@pytest.fixture
def encoder():
    return build_encoder(CONFIG, seed=0).train()


@pytest.fixture
def views(generator):
    return torch.rand(8, 3, 32, 32, generator=generator)


def values(network):
    return {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}


def assert_equal(one, other):
    torch.testing.assert_close(one, other, rtol=0, atol=0)


def moved(encoder, views):
    """Its weights, and its buffers by a forward pass of its own."""
    with torch.no_grad():
        encoder(views)
        for weight in encoder.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    return encoder


@pytest.mark.parametrize("momentum", [0.3, 0.999])
def test_each_weight_is_the_weighted_mean_and_batch_statistics_are_of_the_copy_s_own_passes(momentum, encoder, views):
    copy = momentum_copy(moved(encoder, views))
    slow = values(copy)
    assert_equal(slow, values(encoder))
    assert slow.keys() >= {"head.0.weight", "head.3.weight", "head.4.weight"}
    fast = values(moved(encoder, views))
    assert_equal(values(copy), slow)
    Following(copy, encoder).step(momentum)
    assert_equal(values(encoder), fast)
    weights = dict(copy.named_parameters())
    for name, found in copy.state_dict().items():
        share = momentum if name in weights else 1
        torch.testing.assert_close(found.double(), share * slow[name].double() + (1 - share) * fast[name].double())
    before = values(copy)
    copy(views)
    apart = {name for name, value in values(copy).items() if not torch.equal(value, before[name])}
    assert apart >= {"backbone.1.running_mean", "head.4.running_var", "head.4.num_batches_tracked"}
    assert_equal(values(encoder), fast)


def test_no_gradient_reaches_the_copy_and_updates_reach_no_graph(encoder, views):
    copy = momentum_copy(encoder)
    assert all(weight.requires_grad for weight in encoder.parameters())
    keys = copy(views)
    assert not keys.requires_grad
    (encoder(views) * keys).sum().backward()
    Following(copy, encoder).step(0.9)
    assert all(weight.grad is None and not weight.requires_grad for weight in copy.parameters())
    copy.head = torch.nn.Identity()
    with pytest.raises(AssertionError, match="other layers than its encoder"):
        Following(copy, encoder)
