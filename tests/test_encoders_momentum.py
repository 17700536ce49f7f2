"""The momentum copy: all weights with the head, own buffers, no gradient."""

from functools import partial
from types import MethodType

import pytest
import torch
from torch import nn

from annulus.encoders.encoder import EncoderConfig, build_encoder
from annulus.encoders.momentum import Following, momentum_copy
from annulus.errors import InputError

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


def perturb(encoder, views):
    """Changes the weights by noise and the buffers by a forward pass."""
    with torch.no_grad():
        encoder(views)
        for weight in encoder.parameters():
            weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(1)))
    return encoder


@pytest.mark.parametrize("momentum", [0.3, 0.999])
def test_each_weight_is_the_weighted_mean_and_batch_statistics_are_of_the_copy_s_own_passes(momentum, encoder, views):
    copy = momentum_copy(perturb(encoder, views))
    slow = values(copy)
    assert_equal(slow, values(encoder))
    assert slow.keys() >= {"head.0.weight", "head.3.weight", "head.4.weight"}
    fast = values(perturb(encoder, views))
    assert_equal(values(copy), slow)
    Following(copy, encoder).step(momentum)
    assert_equal(values(encoder), fast)
    weights = dict(copy.named_parameters())
    for name, averaged in copy.state_dict().items():
        share = momentum if name in weights else 1
        torch.testing.assert_close(averaged.double(), share * slow[name].double() + (1 - share) * fast[name].double())
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


def network():
    return nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))


def by_closure(net):
    old = net.forward
    net.forward = lambda x: 2 * old(x)


def by_default(net):
    net[1].forward = lambda x, layer=net[1]: nn.functional.linear(x, layer.weight)


def by_name(net):
    exec("net.forward = lambda x: [net[0](row) for row in x]", names := {"net": net})
    assert names["net"] is net


def by_weight(net):
    weight = net[0].weight
    net[0].again = [lambda x: x @ weight]


def by_hook(net):
    net[0].register_forward_hook(lambda layer, inputs, output: net[1](output))


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (by_closure, "forward"),
        (by_default, "1.forward"),
        (by_name, "forward"),
        (by_weight, "0.again"),
        (by_hook, "0._forward_hooks"),
    ],
)
def test_a_function_whose_copy_would_call_the_encoder_is_refused(change, place):
    net = network()
    change(net)
    with pytest.raises(InputError, match=f"^{place} holds a function that calls the encoder itself.*types.MethodType"):
        momentum_copy(net)


def bind_method(net):
    net.forward = MethodType(lambda self, x: self[1](self[0](x)).tanh(), net)


def bind_partial(net):
    net.forward = partial(lambda layers, x: layers[1](layers[0](x)).tanh(), net)


def use_other_layer(net):
    other = nn.Linear(3, 3)
    net[0].forward = lambda x: other(x) + 1
    net[1].act = nn.functional.relu
    net[1].register_forward_hook(lambda layer, inputs, output: output.tanh())


def compile_forward(net):
    net.compile(backend="eager")


@pytest.mark.parametrize("change", [bind_method, bind_partial, use_other_layer, compile_forward])
def test_a_changed_forward_that_follows_its_copy_is_taken(change):
    net, x = network(), torch.rand(4, 3)
    change(net)
    copy = momentum_copy(net)
    assert_equal(copy(x), net(x))
    for weight in net.parameters():
        weight.data += 1
    assert not torch.equal(copy(x), net(x))


def test_a_compiled_network_is_taken():
    net = torch.compile(network(), backend="eager")
    copy, x = momentum_copy(net), torch.rand(4, 3)
    before = copy(x)
    for weight in net.parameters():
        weight.data += 1
    assert_equal(copy(x), before)


def with_spectral_norm():
    layer = nn.utils.spectral_norm(nn.Linear(3, 3))
    layer(torch.rand(2, 3))
    return layer


def with_a_generator():
    net = network()
    net.rows = (row for row in [1])
    return net


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: nn.utils.weight_norm(nn.Linear(3, 3)), "0.weight is computed from .* torch.nn.utils.parametrizations"),
        (with_spectral_norm, "0.weight is computed from other tensors, and cannot be copied for the keys; in place of"),
        (lambda: nn.LazyLinear(3), "0.weight waits for a first batch, .* pass a batch through the network first"),
        (nn.LazyBatchNorm1d, "0.weight waits for a first batch, and its copy for the keys would draw other numbers; "),
        (with_a_generator, "the encoder cannot be copied for the keys .cannot pickle 'generator' object.; give a netw"),
    ],
)
def test_a_network_that_cannot_be_copied_is_a_sentence(build, message):
    with pytest.raises(InputError, match=message):
        momentum_copy(nn.Sequential(build()))


def test_weight_norm_as_a_parametrization_is_taken():
    net, x = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))), torch.rand(4, 3)
    assert_equal(momentum_copy(net)(x), net(x))
