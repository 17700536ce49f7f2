"""Grouped batch-norm against one nn.BatchNorm per group, synchronised batch-norm against one process's."""

import copy

import pytest
import torch
from gloo import together
from torch import nn

from annulus.compute.distributed import local, local_slice, mean_gradients, world_size
from annulus.encoders import batchnorm, grouped
from annulus.encoders.batchnorm import SyncBatchNorm
from annulus.encoders.grouped import GroupedBatchNorm1d, GroupedBatchNorm2d
from annulus.errors import InputError

PLAIN = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d}
GROUPED = {2: GroupedBatchNorm1d, 4: GroupedBatchNorm2d}
SHAPES = [(12, 5), (12, 5, 3, 2)]


def near(actual, expected, atol=1e-10):
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0)


def unequal(shape, generator):
    """A float64 batch whose rows differ much in mean and spread, so that it matters who is normalised with whom."""
    count = shape[0]
    scale = torch.linspace(0.5, 4, count, dtype=torch.float64).view(-1, *[1] * (len(shape) - 1))
    return torch.randn(shape, generator=generator, dtype=torch.float64) * scale + 10 * scale


def prepared(norm):
    """The same weights and statistics in any kind of batch-norm, none of them 0 or 1."""
    norm.double()
    values = torch.linspace(0.5, 2, norm.num_features, dtype=torch.float64)
    with torch.no_grad():
        if norm.affine:
            norm.weight.copy_(values)
            norm.bias.copy_(values.flip(0) - 1)
        if norm.track_running_stats:
            norm.running_mean.copy_(3 * values)
            norm.running_var.copy_(2 * values)
    return norm


def groupwise(norm, groups, x):
    """The reference: a copy of plain batch-norm walks over the groups, one after the other."""
    return torch.cat([norm(rows) for rows in x.chunk(groups)])


def through(norm, x, weights, forward=lambda norm, x: norm(x)):
    """Output, gradients of a weighted sum of it, and state afterwards, by name."""
    x = x.clone().requires_grad_()
    result = forward(norm, x)
    (result * weights).sum().backward()
    gradients = {f"{name}.grad": parameter.grad for name, parameter in norm.named_parameters()}
    return {"output": result.detach(), "x.grad": x.grad, **gradients, **copy.deepcopy(norm.state_dict())}


def test_a_network_without_batch_norm_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(batchnorm, "world_size", lambda: 2)
    network = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.MultiheadAttention(4, 2))
    parts = list(network.modules())
    for changed in (grouped.convert(network, 2), batchnorm.synchronised(network)):
        assert all(mine is theirs for mine, theirs in zip(changed.modules(), parts, strict=True))


@pytest.mark.parametrize(
    ("groups", "settings"),
    [
        (2, {"momentum": None}),
        (6, {"momentum": 0.7}),
        (2, {"affine": False, "eps": 0.1}),
        (3, {"track_running_stats": False}),
    ],
)
def test_groups_equal_a_plain_batchnorm_each_in_turn(groups, settings, generator):
    for shape in SHAPES:
        plain = prepared(PLAIN[len(shape)](5, **settings))
        grouped = prepared(GROUPED[len(shape)](5, groups=groups, **settings))
        without_gradient = copy.deepcopy(grouped)
        for _ in range(2):  # the second batch meets the statistics that the first left
            x, weights = unequal(shape, generator), torch.rand(shape, generator=generator, dtype=torch.float64)
            expected = through(plain, x, weights, forward=lambda norm, x: groupwise(norm, groups, x))
            actual = through(grouped, x, weights)
            with torch.no_grad():
                found = {"output": without_gradient(x), **without_gradient.state_dict()}
            assert actual.keys() == expected.keys()
            for name in expected:
                near(actual[name], expected[name])
                near(found.get(name, expected[name]), expected[name])
        x = unequal(shape, generator)
        near(grouped.eval()(x), plain.eval()(x))  # in evaluation groups do not matter
        near(grouped.running_mean, plain.running_mean)


@pytest.mark.parametrize("gradient", [True, False])
def test_bfloat16_images_have_float32_statistics_and_stay_channels_last(gradient, generator):
    images = torch.rand(8, 4, 6, 6, generator=generator).bfloat16().contiguous(memory_format=torch.channels_last)
    norm, plain = GroupedBatchNorm2d(4, groups=2), nn.BatchNorm2d(4)
    with torch.set_grad_enabled(gradient):
        result = norm(images)
    assert result.dtype == torch.bfloat16
    assert result.is_contiguous(memory_format=torch.channels_last)
    near(result, groupwise(plain, 2, images))
    near(norm.running_mean, plain.running_mean, atol=1e-6)


def test_groups_that_do_not_fit_the_batch_are_refused():
    norm = GroupedBatchNorm1d(5, groups=4)
    with pytest.raises(InputError, match=r"a batch of 10 cannot be normalised in 4 equal groups .*a multiple of 4"):
        norm(torch.rand(10, 5))
    with pytest.raises(InputError, match=r"a batch of 4 cannot be normalised in 4 equal groups .*at least 8"):
        norm(torch.rand(4, 5))
    norm(torch.rand(4, 5, 2))  # two values per channel are enough
    norm.eval()(torch.rand(3, 5))


@pytest.mark.usefixtures("untouched_global_randomness")
def test_a_leak_through_batch_statistics_ends_with_shuffling_which_its_inverse_undoes(generator):
    """Rows of one group share its mean: the sum of a normalised group is 0, of a shuffled one it is not."""
    x, norm = torch.randn(32, 5, generator=generator), GroupedBatchNorm1d(5, groups=4, affine=False)
    order, back = grouped.shuffled(32, torch.Generator().manual_seed(0))
    near(norm(x).view(4, 8, 5).sum(dim=1), torch.zeros(4, 5), atol=1e-5)
    assert norm(x[order])[back].view(4, 8, 5).sum(dim=1).abs().min() > 0.01
    assert torch.equal(x[order][back], x)
    assert not torch.equal(order, back)


def share_through(norm, x, weights):
    """`through` for this process's rows of the batch, with averaged gradients of parameters; and which rows."""
    rows, x, weights = local_slice(len(x)), local(x).clone(), local(weights)
    x.requires_grad_()
    result = norm(x)
    (result * weights).sum().mul(world_size()).backward()
    mean_gradients(norm.parameters())
    gradients = {f"{name}.grad": parameter.grad for name, parameter in norm.named_parameters()}
    return {"output": result.detach(), "x.grad": x.grad / world_size(), **gradients, **norm.state_dict()}, rows


def assert_shares_equal(answers, expected, atol=1e-10):
    for share, rows in answers:
        assert share.keys() == expected.keys()
        for name, value in share.items():
            whole = expected[name]
            near(value, whole[rows] if name in ("output", "x.grad") else whole, atol)


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        (SHAPES[0], {}),
        (SHAPES[1], {"momentum": None, "eps": 0.1}),
        (SHAPES[1], {"affine": False}),
        (SHAPES[1], {"track_running_stats": False}),
    ],
    ids=str,
)
def test_synchronised_processes_equal_one_on_the_whole_batch(shape, settings, generator):
    x, weights = unequal(shape, generator), torch.rand(shape, generator=generator, dtype=torch.float64)
    expected = through(prepared(PLAIN[len(shape)](5, **settings)), x, weights)
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    answers = together(
        share_through, prepared(SyncBatchNorm(5, **settings)), x.contiguous(memory_format=layout), weights
    )
    assert_shares_equal(answers, expected)
    for share, _ in answers:
        assert share["output"].is_contiguous(memory_format=layout)
        assert share["x.grad"].is_contiguous(memory_format=layout)


def test_synchronised_variance_survives_a_large_mean_and_images_in_bfloat16(generator):
    """A difference of float32 sums of squares would lose a variance of 1 beside a mean of 10,000."""
    x = torch.randn(64, 3, generator=generator) + 10_000
    for images in (x, (x - 9_990).bfloat16()):
        answers = together(share_through, SyncBatchNorm(3, momentum=1.0), images, torch.ones_like(images))
        for share, _ in answers:
            assert share["output"].dtype == images.dtype
            torch.testing.assert_close(share["running_var"].double(), images.double().var(dim=0), rtol=1e-3, atol=0)


def test_in_evaluation_and_in_one_process_synchronised_is_plain(generator):
    shape = SHAPES[1]
    x, weights = unequal(shape, generator), torch.rand(shape, generator=generator, dtype=torch.float64)
    for training in (True, False):
        plain, synced = prepared(nn.BatchNorm2d(5)).train(training), prepared(SyncBatchNorm(5)).train(training)
        expected, actual = through(plain, x, weights), through(synced, x, weights)
        assert all(torch.equal(actual[name], expected[name]) for name in expected)
    assert_shares_equal(together(share_through, prepared(SyncBatchNorm(5)).eval(), x, weights), expected)


def test_processes_sharing_the_groups_equal_one(generator):
    shape = SHAPES[1]
    x, weights = unequal(shape, generator), torch.rand(shape, generator=generator, dtype=torch.float64)
    grouped = prepared(GroupedBatchNorm2d(5, groups=6, momentum=None))
    answers = together(share_through, copy.deepcopy(grouped), x, weights)
    expected, _ = share_through(grouped, x, weights)
    assert_shares_equal(answers, expected)


def refusal(groups):
    with pytest.raises(InputError) as caught:
        GroupedBatchNorm1d(5, groups=groups)(torch.rand(12, 5))
    return str(caught.value)


def test_groups_that_processes_cannot_share_are_refused():
    for message in together(refusal, 3):
        assert message.startswith("3 batch-norm groups cannot be shared evenly by 2 processes")


def network():
    """The same weights at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        inner = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, eps=0.1, momentum=0.3), nn.ReLU())
        tail = [nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6, affine=False), nn.BatchNorm1d(6)]
        return nn.Sequential(inner, *tail)


def kinds(module):
    return [type(part) for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm)]


def test_converting_keeps_weights_statistics_names_and_settings():
    plain = network()
    plain(torch.rand(8, 3, 4, 4))
    plain[3].eval()
    before = copy.deepcopy(plain)
    pointers = {name: tensor.data_ptr() for name, tensor in plain.state_dict().items()}

    converted = grouped.convert(plain, groups=2)
    assert converted is plain
    assert kinds(converted) == [GroupedBatchNorm2d, GroupedBatchNorm1d, GroupedBatchNorm1d]
    assert {name: tensor.data_ptr() for name, tensor in converted.state_dict().items()} == pointers
    assert [norm.training for norm in (converted[0][1], converted[3], converted[4])] == [True, False, True]
    assert (converted[0][1].eps, converted[0][1].momentum, converted[0][1].groups) == (0.1, 0.3, 2)
    x = torch.rand(8, 3, 4, 4)
    assert torch.equal(converted.eval()(x), before.eval()(x))
    assert grouped.convert(converted[4], groups=4).groups == 4, "one alone, which has groups"
    with pytest.raises(AssertionError, match="convert before"):
        grouped.convert(nn.Sequential(SyncBatchNorm(3)), groups=2)


def test_one_process_cannot_synchronise():
    with pytest.raises(InputError, match=r"several processes.*torchrun.*batch_norm: shuffle"):
        batchnorm.synchronised(network())


def test_layers_that_learn_together_learn_what_each_learns_alone(generator):
    x = torch.rand(8, 3, 4, 4, generator=generator)
    alone, joined = (grouped.convert(network(), groups=2) for _ in range(2))
    with pytest.raises(AssertionError, match="differ in groups or momentum"), grouped.learning(joined):
        pass
    alone[0][1].momentum = joined[0][1].momentum = joined[3].momentum
    start = copy.deepcopy(joined.state_dict())
    alone(x)
    with grouped.learning(joined):
        joined(x)
        assert torch.equal(joined[3].running_mean, start["3.running_mean"]), "not before the pass is done"
    for name, value in alone.state_dict().items():
        assert torch.equal(joined.state_dict()[name], value), name
    assert not torch.equal(joined[3].running_mean, start["3.running_mean"])
    with grouped.learning(joined.eval()):
        joined(x)
    assert torch.equal(joined[3].running_mean, alone[3].running_mean), "in evaluation nothing is learned"
