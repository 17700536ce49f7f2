"""The momentum copy: entry by entry, head included, buffers its own, no gradient."""

import pytest
import torch

from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.momentum import momentum_copy, update_momentum_

STATISTICS = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.3, 0.2)}
CONFIG = EncoderConfig("alexnet", "imagenet", "mlp-bn", embedding_dim=6, view_size=32, split=None, **STATISTICS)


@pytest.fixture
def encoder():
    return build_encoder(CONFIG, seed=0).train()


def values(tensors):
    return {name: tensor.detach().clone() for name, tensor in tensors}


def stepped(encoder, generator):
    """The encoder after its weights have moved, and its buffers by forward passes of its own."""
    with torch.no_grad():
        encoder(torch.rand(8, 3, 32, 32, generator=generator))
        for weight in encoder.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator))
    return encoder


def test_a_copy_has_every_weight_and_buffer_head_included_in_memory_of_its_own(encoder, generator):
    copy = momentum_copy(stepped(encoder, generator))
    expected, found = values(encoder.state_dict().items()), copy.state_dict()
    assert found.keys() == expected.keys()
    assert {name for name in found if name.startswith("head.")} >= {"head.0.weight", "head.3.weight", "head.4.weight"}
    assert all(torch.equal(found[name], expected[name]) for name in found)
    views = torch.rand(4, 3, 32, 32, generator=generator)
    with torch.no_grad():
        assert torch.equal(copy.eval()(views), encoder.eval()(views))
    stepped(encoder, generator)
    assert all(torch.equal(found[name], expected[name]) for name in found)


@pytest.mark.parametrize("momentum", [0.3, 0.999])
def test_each_entry_is_the_weighted_mean_of_the_copy_and_the_encoder(momentum, encoder, generator):
    copy = momentum_copy(encoder)
    slow = values(copy.named_parameters())
    fast = values(stepped(encoder, generator).named_parameters())
    update_momentum_(copy, encoder, momentum)
    for name, found in copy.named_parameters():
        expected = momentum * slow[name].double() + (1 - momentum) * fast[name].double()
        torch.testing.assert_close(found.double(), expected, atol=1e-6, rtol=1e-5)
    assert all(torch.equal(weight, fast[name]) for name, weight in encoder.named_parameters())


def test_the_copy_keeps_the_batch_statistics_of_its_own_passes(encoder, generator):
    copy = momentum_copy(encoder)
    before = values(copy.named_buffers())
    update_momentum_(copy, stepped(encoder, generator), 0.5)
    assert all(torch.equal(buffer, before[name]) for name, buffer in copy.named_buffers())
    theirs = values(encoder.named_buffers())
    copy(torch.rand(8, 3, 32, 32, generator=generator))
    moved = {name for name, buffer in copy.named_buffers() if not torch.equal(buffer, before[name])}
    assert {"backbone.1.running_mean", "head.4.running_var", "head.4.num_batches_tracked"} <= moved
    assert all(torch.equal(buffer, theirs[name]) for name, buffer in encoder.named_buffers())


def test_no_gradient_reaches_the_copy_and_updates_reach_no_graph(encoder, generator):
    copy = momentum_copy(encoder)
    assert not any(weight.requires_grad for weight in copy.parameters())
    assert all(weight.requires_grad for weight in encoder.parameters())
    views = torch.rand(4, 3, 32, 32, generator=generator)
    keys = copy(views)
    assert not keys.requires_grad
    (encoder(views) * keys).sum().backward()
    update_momentum_(copy, encoder, 0.9)
    assert all(weight.grad is None and not weight.requires_grad for weight in copy.parameters())
    copy.head = torch.nn.Identity()
    with pytest.raises(AssertionError, match="other layers than its encoder"):
        update_momentum_(copy, encoder, 0.9)
