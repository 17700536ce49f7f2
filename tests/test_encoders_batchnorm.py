"""Grouped batch-norm against one nn.BatchNorm per group, synchronised batch-norm against one process's."""

import copy
import pickle

import pytest
import torch
from gloo import together
from torch import nn

from annulus.device.distributed import local, local_slice, world_size
from annulus.encoders import batchnorm
from annulus.encoders import shuffled_batchnorm as grouped
from annulus.encoders.batchnorm import SyncBatchNorm
from annulus.encoders.shuffled_batchnorm import GroupedBatchNorm1d, GroupedBatchNorm2d
from annulus.errors import InputError
from annulus.optim.gradients import GradientMeans

PLAIN = {2: nn.BatchNorm1d, 4: nn.BatchNorm2d}
GROUPED = {2: GroupedBatchNorm1d, 4: GroupedBatchNorm2d}
ROWS, IMAGES = SHAPES = [(12, 5), (12, 5, 3, 2)]


def near(actual, expected, atol=1e-10):
    torch.testing.assert_close(actual, expected, atol=atol, rtol=0)


def unequal(shape, generator):
    """Float64 rows that differ much in mean and spread, so that the grouping changes the result; random weights."""
    scale = torch.linspace(0.5, 4, shape[0], dtype=torch.float64).view(-1, *[1] * (len(shape) - 1))
    rows, weights = (torch.randn(shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return rows * scale + 10 * scale, weights


def set_values(norm):
    """Sets the same weights and statistics, unlike the defaults, in any kind of batch-norm, in float64."""
    norm.double()
    values = torch.linspace(0.6, 2, norm.num_features, dtype=torch.float64)
    for name, value in (
        *(("weight", values), ("bias", values.flip(0) - 1)),
        *(("running_mean", 3 * values), ("running_var", 2 * values)),
    ):
        if getattr(norm, name) is not None:
            getattr(norm, name).data.copy_(value)
    return norm


def through(norm, x, weights, groups=1):
    """Outputs, gradients of their weighted sum over all processes and state afterwards, by name; this process's rows.

    Plain batch-norm takes the groups one after the other.
    """
    rows, x, weights = local_slice(len(x)), local(x).clone().requires_grad_(), local(weights)
    result = norm(x) if groups == 1 else torch.cat([norm(some) for some in x.chunk(groups)])
    (result * weights).sum().mul(world_size()).backward()
    GradientMeans(norm.parameters()).wait()
    gradients = {f"{name}.grad": parameter.grad for name, parameter in norm.named_parameters()}
    results = {"output": result.detach(), "x.grad": x.grad / world_size(), **gradients, **norm.state_dict()}
    return copy.deepcopy(results), rows


def assert_shares_equal(answers, expected):
    for share, rows in answers:
        assert share.keys() == expected.keys()
        for name, value in share.items():
            near(value, expected[name][rows] if name in ("output", "x.grad") else expected[name])


@pytest.mark.parametrize(
    ("groups", "settings"),
    [
        (2, {"momentum": None}),
        (6, {"momentum": 0.7}),
        (2, {"affine": False, "eps": 0.1}),
        (3, {"track_running_stats": False}),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_groups_equal_a_plain_batchnorm_each_in_turn(shape, groups, settings, generator):
    plain = set_values(PLAIN[len(shape)](5, **settings))
    grouped = set_values(GROUPED[len(shape)](5, groups=groups, **settings))
    without_gradient = copy.deepcopy(grouped)
    for _ in range(2):  # the second batch starts from the first batch's statistics
        x, weights = unequal(shape, generator)
        expected, _ = through(plain, x, weights, groups)
        assert_shares_equal([through(grouped, x, weights)], expected)
        with torch.no_grad():
            near(without_gradient(x), expected["output"])
    x, _ = unequal(shape, generator)
    near(grouped.eval()(x), plain.eval()(x))  # in evaluation groups do not matter
    near([*without_gradient.buffers()], [*plain.buffers()])


@pytest.mark.parametrize("gradient", [True, False])
def test_bfloat16_images_have_float32_statistics_and_stay_channels_last(gradient, generator):
    images = torch.rand(8, 4, 6, 6, generator=generator).bfloat16().contiguous(memory_format=torch.channels_last)
    norm, plain = GroupedBatchNorm2d(4, groups=2), nn.BatchNorm2d(4)
    with torch.set_grad_enabled(gradient):
        result = norm(images)
    assert result.dtype == torch.bfloat16
    assert result.is_contiguous(memory_format=torch.channels_last)
    near(result, torch.cat([plain(some) for some in images.chunk(2)]))
    near(norm.running_mean, plain.running_mean, atol=1e-6)


def refusal(groups, count=12):
    with pytest.raises(InputError) as caught:
        GroupedBatchNorm1d(5, groups=groups)(torch.rand(count, 5))
    return str(caught.value)


def test_groups_that_do_not_fit_the_batch_or_the_processes_are_refused():
    for count in (10, 4):
        sentence = f"a batch of {count} cannot be normalised in 4 equal groups of two or more; take a batch size that "
        assert refusal(4, count) == sentence + "is a multiple of 4, and at least 8"
    norm = GroupedBatchNorm1d(5, groups=4)
    norm(torch.rand(4, 5, 2))  # two values per channel are enough
    norm.eval()(torch.rand(3, 5))
    for message in together(refusal, 3):
        assert message.startswith("3 batch-norm groups cannot be shared evenly by 2 processes")


# --- several processes --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "settings"),
    [
        (ROWS, {}),
        (IMAGES, {"momentum": None, "eps": 0.1}),
        (IMAGES, {"affine": False}),
        (IMAGES, {"track_running_stats": False}),
    ],
    ids=str,
)
def test_synchronised_processes_equal_one_on_the_whole_batch(shape, settings, generator):
    x, weights = unequal(shape, generator)
    expected, _ = through(set_values(PLAIN[len(shape)](5, **settings)), x, weights)
    layout = torch.channels_last if len(shape) == 4 else torch.contiguous_format
    answers = together(through, set_values(SyncBatchNorm(5, **settings)), x.contiguous(memory_format=layout), weights)
    assert_shares_equal(answers, expected)
    for share, _ in answers:
        assert all(share[name].is_contiguous(memory_format=layout) for name in ("output", "x.grad"))


def test_synchronised_variance_survives_a_large_mean_and_images_in_bfloat16(generator):
    """A difference of float32 sums of squares would lose a variance of 1 beside a mean of 10,000."""
    x = torch.randn(64, 3, generator=generator) + 10_000
    for images in (x, (x - 9_990).bfloat16()):
        for share, _ in together(through, SyncBatchNorm(3, momentum=1.0), images, torch.ones_like(images)):
            assert share["output"].dtype == images.dtype
            torch.testing.assert_close(share["running_var"].double(), images.double().var(dim=0), rtol=1e-3, atol=0)


def penalty(norm, x, weights, power):
    """Gradient of the squared gradient of a sum of powers plus the sum of x, or the text of the refusal."""
    x = local(x).clone().requires_grad_()
    try:
        (first,) = torch.autograd.grad((norm(x) * local(weights)).pow(power).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum() + x.sum(), x)[0]
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("power", [1, 2])  # with power 1 the incoming gradient has no graph
def test_a_second_derivative_over_processes_is_refused_and_in_one_or_in_evaluation_right(power, generator):
    x, weights = unequal(ROWS, generator)
    plain, synced = set_values(nn.BatchNorm1d(5)), set_values(SyncBatchNorm(5))
    near(penalty(synced, x, weights, power), penalty(plain, x, weights, power))
    for message in together(penalty, synced, x, weights, power):
        assert message.startswith("create_graph=True asks batch-norm for a second derivative over several processes")
    answers = together(penalty, synced.eval(), x, weights, power)
    near(torch.cat(answers), penalty(plain.eval(), x, weights, power))


def test_in_evaluation_and_in_one_process_synchronised_is_plain(generator):
    for training in (True, False):
        plain, synced = (set_values(kind(5)).train(training) for kind in (nn.BatchNorm2d, SyncBatchNorm))
        x, weights = unequal(IMAGES, generator)
        expected, _ = through(plain, x, weights)
        assert all(torch.equal(value, expected[name]) for name, value in through(synced, x, weights)[0].items())
    assert_shares_equal(together(through, set_values(SyncBatchNorm(5)).eval(), x, weights), expected)


def test_processes_sharing_the_groups_equal_one(generator):
    x, weights = unequal(IMAGES, generator)
    norm = set_values(GroupedBatchNorm2d(5, groups=6, momentum=None))
    assert_shares_equal(together(through, copy.deepcopy(norm), x, weights), through(norm, x, weights)[0])


# --- whole networks -----------------------------------------------------------------------------------


def network():
    """A network with the same weights at every call."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        inner = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4, eps=0.1, momentum=0.3), nn.ReLU())
        tail = [nn.Flatten(), nn.Linear(16, 6), nn.BatchNorm1d(6, affine=False), nn.BatchNorm1d(6)]
        return nn.Sequential(inner, *tail)


def test_a_network_without_batch_norm_stays_as_it_is(monkeypatch):
    monkeypatch.setattr(batchnorm, "world_size", lambda: 2)
    plain = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.MultiheadAttention(4, 2))
    parts = list(plain.modules())
    for changed in (grouped.convert(plain, 2), batchnorm.synchronised(plain)):
        assert all(mine is theirs for mine, theirs in zip(changed.modules(), parts, strict=True))


class Activated(nn.BatchNorm2d):
    """Batch-norm with an activation in its forward, like timm's BatchNormAct2d."""

    def __init__(self, features, **settings):
        super().__init__(features, **settings)
        self.act = nn.LeakyReLU(0.3)

    def forward(self, x):
        return self.act(super().forward(x))


class Renewing(Activated):
    """Batch-norm that replaces its running statistics by new tensors and needs its count of batches."""

    def forward(self, x):
        mean, var = x.mean(dim=(0, 2, 3)), x.var(dim=(0, 2, 3))
        self.num_batches_tracked += 1
        self.running_mean = (1 - self.momentum) * self.running_mean + self.momentum * mean.detach()
        self.running_var = (1 - self.momentum) * self.running_var + self.momentum * var.detach()
        place = (-1, 1, 1)
        return self.act((x - mean.view(place)) / (var.view(place) + self.eps).sqrt())


class Correcting(Activated):
    """A part of batch renormalisation: the forward pass reads the running mean."""

    def forward(self, x):
        before = self.running_mean.clone()
        return super().forward(x) + before.view(-1, 1, 1)


KINDS = {
    "an activation": Activated(5, momentum=0.7),
    "a plain average": Activated(5, momentum=None),
    "no running statistics": Activated(5, track_running_stats=False),
    "new statistics": Renewing(5),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_batchnorm_with_a_forward_of_its_own_keeps_it_in_groups(name, generator):
    plain = set_values(copy.deepcopy(KINDS[name]))
    norm = grouped.convert(copy.deepcopy(plain), groups=3)
    assert isinstance(norm, type(plain))
    without_gradient = pickle.loads(pickle.dumps(norm))
    for _ in range(2):
        x, weights = unequal(IMAGES, generator)
        expected, _ = through(plain, x, weights, groups=3)
        assert_shares_equal([through(norm, x, weights)], expected)
        with torch.no_grad():
            near(without_gradient(x), expected["output"])
    near([*without_gradient.buffers()], [*plain.buffers()])
    assert norm.momentum == plain.momentum
    x, _ = unequal(IMAGES, generator)
    near(norm.eval()(x), plain.eval()(x))


def test_each_group_meets_the_running_statistics_of_before_the_batch(generator):
    """Groups act like devices that exchange nothing within a step."""
    plain = set_values(Correcting(5))
    norm, x = grouped.convert(copy.deepcopy(plain), groups=3), unequal(IMAGES, generator)[0]
    near(norm(x), torch.cat([copy.deepcopy(plain)(rows) for rows in x.chunk(3)]))


def test_processes_sharing_the_groups_of_a_forward_of_its_own_equal_one(generator):
    x, weights = unequal(IMAGES, generator)
    norm = grouped.convert(set_values(Activated(5)), groups=6)
    assert_shares_equal(together(through, copy.deepcopy(norm), x, weights), through(norm, x, weights)[0])


def test_one_group_leaves_every_layer_as_it_is():
    plain = nn.Sequential(Activated(3), nn.BatchNorm2d(3))
    kinds = [type(each) for each in grouped.convert(plain, groups=1)]
    assert kinds == [Activated, nn.BatchNorm2d]


class Conditional(nn.BatchNorm2d):
    def forward(self, x, condition):
        return super().forward(x) * condition


class Split(nn.BatchNorm2d):
    def __init__(self, features):
        super().__init__(features)
        self.other = nn.BatchNorm2d(features)


@pytest.mark.parametrize(
    ("norm", "message"),
    [
        (
            Conditional(3),
            r"layer 0 is a Conditional, which takes condition too, and cannot .* take shuffle_groups=1",
        ),
        (Split(3), r"layer 0 is a Split, which has a BatchNorm2d inside, and cannot normalise a batch group by group;"),
    ],
)
def test_a_batchnorm_that_cannot_pass_group_by_group_is_refused(norm, message):
    with pytest.raises(InputError, match=message):
        grouped.convert(nn.Sequential(norm), groups=2)
    grouped.convert(nn.Sequential(norm), groups=1)


def test_synchronising_refuses_a_forward_that_it_would_lose(monkeypatch):
    monkeypatch.setattr(batchnorm, "world_size", lambda: 2)
    with pytest.raises(InputError, match=r"layer 1 is a Activated, which sync .* replace; .*batch_norm 'shuff"):
        batchnorm.synchronised(nn.Sequential(nn.BatchNorm2d(3), Activated(3)))
    own, plain = nn.SyncBatchNorm(3), nn.BatchNorm2d(3, eps=0.1)
    batchnorm.synchronised(nn.Sequential(own, plain))
    assert (type(own), type(plain), plain.eps) == (nn.SyncBatchNorm, SyncBatchNorm, 0.1)


def test_converting_keeps_weights_statistics_names_and_settings(generator):
    plain, x = network(), torch.rand(8, 3, 4, 4, generator=generator)
    plain(x)
    plain[3].eval()
    before = copy.deepcopy(plain)
    pointers = {name: tensor.data_ptr() for name, tensor in plain.state_dict().items()}

    converted = grouped.convert(plain, groups=2)
    norms = [converted[0][1], converted[3], converted[4]]
    assert converted is plain
    assert [type(norm) for norm in norms] == [GroupedBatchNorm2d, GroupedBatchNorm1d, GroupedBatchNorm1d]
    assert {name: tensor.data_ptr() for name, tensor in converted.state_dict().items()} == pointers
    assert [norm.training for norm in norms] == [True, False, True]
    assert (norms[0].eps, norms[0].momentum, norms[0].groups) == (0.1, 0.3, 2)
    assert torch.equal(converted.eval()(x), before.eval()(x))
    assert grouped.convert(converted[4], groups=4).groups == 4, "one alone, which has groups"
    with pytest.raises(AssertionError, match="convert before"):
        grouped.convert(nn.Sequential(SyncBatchNorm(3)), groups=2)
    with pytest.raises(InputError, match=r"several processes.*torchrun.*batch_norm 'shuffle'"):
        batchnorm.synchronised(network())


def test_layers_that_learn_together_learn_what_each_learns_alone(generator):
    """The three layers have different momenta; one keeps a plain average with its own count."""
    x = torch.rand(8, 3, 4, 4, generator=generator)
    alone, joined = (grouped.convert(network(), groups=2) for _ in range(2))
    for each in (alone, joined):
        each[4].momentum = None
        each[4].num_batches_tracked += 5
    start = joined[3].running_mean.clone()
    alone(x)
    with grouped.learning(grouped.grouped(joined)):
        joined(x)
        assert torch.equal(joined[3].running_mean, start), "not before the pass is done"
    for name, value in alone.state_dict().items():
        assert torch.equal(joined.state_dict()[name], value), name
    assert not torch.equal(joined[3].running_mean, start)
    with grouped.learning(grouped.grouped(joined.eval())):
        joined(x)
    assert torch.equal(joined[3].running_mean, alone[3].running_mean), "in evaluation nothing is learned"


def test_two_plain_averages_have_counts_of_their_own(generator):
    x = torch.rand(8, 5, generator=generator)
    plain = nn.Sequential(nn.BatchNorm1d(5, momentum=None), nn.BatchNorm1d(5, momentum=None))
    plain[1].num_batches_tracked += 7
    joined = grouped.convert(copy.deepcopy(plain), groups=2)
    with grouped.learning(grouped.grouped(joined)):
        joined(x)
    for rows in x.chunk(2):
        plain(rows)
    near([*joined.buffers()], [*plain.buffers()], atol=1e-6)


def test_statistics_of_groups_stay_in_one_place(generator):
    """A CUDA graph writes to recorded addresses; only the addresses of weights and buffers are compared."""
    net, x = grouped.convert(network(), groups=2), torch.rand(8, 3, 4, 4, generator=generator)
    net[0][1].momentum = net[3].momentum
    layers, buffers = grouped.grouped(net), []
    for images in (x, 2 * x):
        with grouped.learning(layers):
            net(images)
        buffers.append([layer.measured for layer in layers])
    assert len(layers) == 3
    assert all(first is second for first, second in zip(*buffers, strict=True))


def test_room_for_statistics_fits_another_type_and_a_pass_after_one_of_inference(generator):
    net, x = grouped.convert(network(), groups=2), torch.rand(8, 3, 4, 4, generator=generator)
    with torch.inference_mode():
        net(x)
    in_float32 = net(x)
    in_float64 = net.double()(x.double())
    assert net[3].measured.dtype == torch.float64
    torch.testing.assert_close(in_float64.float(), in_float32)
