"""Networks replayed from CUDA graphs equal the network. Without a GPU a replay computes again into the same memory."""

from contextlib import nullcontext
from copy import deepcopy
from functools import partial
from unittest import mock

import pytest
import torch
from pretended_gpu import PretendedGPU
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from annulus.device import graphs
from annulus.device.graphs import FORMS, Graphed
from annulus.errors import InputError

REAL = torch.cuda.is_available()
GPU = torch.device("cuda")


class Recorder:
    """`graphs.record` without a GPU; `passes` counts replays of forward, `recorded` counts captures."""

    def __init__(self):
        self.recorded = self.passes = 0
        self.grad = torch.autograd.grad

    def record(self, run, pool):
        self.recorded += 1
        results = run() if pool is None else self.grads(*self.grad_arguments(run))
        into = as_list(results)
        own, enabled = {"fresh": None}, torch.is_grad_enabled()

        def replay():
            self.passes += 1
            with torch.set_grad_enabled(enabled):
                again = own["fresh"] = run()
            for old, new in zip(into, as_list(again), strict=True):
                old.data.copy_(new.detach())

        def replay_backward():
            _, learning, upstream = self.grad_arguments(run)
            for old, new in zip(into, self.grads(pool["fresh"], learning, upstream), strict=True):
                if old is not None:
                    old.copy_(new)

        return results, (replay if pool is None else replay_backward), own

    def grad_arguments(self, run):
        """Arguments of the call of `torch.autograd.grad` in a run."""
        with mock.patch.object(torch.autograd, "grad", lambda *upstream, allow_unused: upstream):
            return run()

    def grads(self, results, learning, upstream):
        leaves = [each for each in as_list(results) if each.requires_grad]
        return self.grad(leaves, learning, upstream, allow_unused=True)


class Casts(TorchDispatchMode):
    """Shapes of the tensors that are cast to another type."""

    def __init__(self):
        super().__init__()
        self.shapes = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.name == "aten::_to_copy":
            self.shapes.append(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


def as_list(tensors):
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


@pytest.fixture
def recorder(monkeypatch):
    """None on a GPU, which records by itself."""
    if REAL:
        yield None
        return
    fake = Recorder()
    monkeypatch.setattr(graphs, "record", fake.record)
    monkeypatch.setattr(torch.cuda, "Stream", mock.MagicMock())
    monkeypatch.setattr(torch.cuda, "current_stream", mock.MagicMock())
    monkeypatch.setattr(torch.cuda, "stream", lambda _: nullcontext())
    monkeypatch.setattr(torch.cuda, "get_rng_state", mock.MagicMock())
    monkeypatch.setattr(torch.cuda, "set_rng_state", mock.MagicMock())
    with PretendedGPU(autocast=False):
        yield fake


def network():
    torch.manual_seed(0)
    layers = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 5))
    return layers.to(GPU)


def batch(seed, count=8):
    return torch.rand(count, 3, 6, 6, generator=torch.Generator().manual_seed(seed)).to(GPU)


def run_steps(call, net, batches, steps=3):
    """Weights, statistics and losses after some steps."""
    rate, losses = 0.1, []
    for step in range(steps):
        loss = sum(call(each).square().sum() for each in batches[step])
        net.zero_grad()
        loss.backward()
        losses.append(loss.detach().cpu())
        with torch.no_grad():
            for weight in net.parameters():
                weight -= rate * weight.grad
    return [value.detach().cpu().double() for value in net.state_dict().values()] + losses


def state(net):
    return [value.cpu() for value in net.state_dict().values()]


def assert_same(actual, expected):
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5, check_dtype=False)


@pytest.mark.parametrize("passes", [1, 2], ids=["one pass a step", "two passes before one backward"])
def test_steps_are_those_of_the_network(passes, recorder):
    plain, net = network(), network()
    batches = [[batch(10 * step + number) for number in range(passes)] for step in range(3)]
    call = Graphed(net, net)
    assert_same(run_steps(call, net, batches), run_steps(plain, plain, batches))
    assert len(call.captured) == 1
    if recorder is not None:
        assert (recorder.recorded, recorder.passes) == (2, 3), "a second pass must not overwrite what the first needs"


def test_gradients_add_up_and_results_stay(recorder):
    plain, net = network(), network()
    call = Graphed(net, net)
    for each in (plain, call):
        results = []
        for seed in (1, 2):
            results.append(each(batch(seed)))
            results[-1].square().sum().backward()
        if each is plain:
            expected = results
    assert_same([one.detach().cpu() for one in results], [one.detach().cpu() for one in expected])
    assert_same(*([weight.grad.cpu() for weight in one.parameters()] for one in (net, plain)))
    gradients = torch.autograd.grad(call(batch(3)).sum(), list(net.parameters()))
    kept = [each.cpu() for each in gradients]
    call(batch(4)).sum().backward()
    assert_same([each.cpu() for each in gradients], kept)


def test_a_second_backward_over_one_pass_is_refused_and_a_forgotten_pass_is_no_burden(recorder):
    net = network()
    call = Graphed(net, net)
    total = call(batch(1)).sum()
    total.backward(retain_graph=True)
    with pytest.raises(InputError, match=r"backward ran twice over one pass.*ANNULUS_COMPILE=yes"):
        total.backward()
    call(batch(2))  # without a backward
    before = None if recorder is None else recorder.passes
    call(batch(3)).sum().backward()
    assert recorder is None or recorder.passes == before + 1


def test_each_form_is_captured_by_itself_and_a_few_of_them(recorder):
    plain, net = network(), network()
    call = Graphed(net, net)
    for count in range(2, 4 + FORMS):
        assert_same([call(batch(count, count)).detach().cpu()], [plain(batch(count, count)).detach().cpu()])
    assert len(call.captured) == FORMS
    net, plain = network(), network()
    call = Graphed(net, net)
    with torch.no_grad():
        assert_same([call(batch(1)).cpu()], [plain(batch(1)).cpu()])
    for each in (net, plain):
        each[1].eval()
        each[4].requires_grad_(False)
    call(batch(2)).sum().backward()
    plain(batch(2)).sum().backward()
    assert net[4].weight.grad is None
    assert len(call.captured) == 2
    assert_same([net[0].weight.grad.cpu()], [plain[0].weight.grad.cpu()])
    assert_same(state(net), state(plain))
    net.train()
    call(batch(2))
    assert len(call.captured) == 3, "in training it normalises by the batch"
    net[4].requires_grad_(True)
    call(batch(2)).sum().backward()
    assert len(call.captured) == 4, "and now the last layer learns"
    assert net[4].weight.grad is not None


def test_nothing_is_captured_while_a_pass_waits_for_its_backward(recorder):
    """Torch refuses to capture a backward to weights that another living autograd graph uses."""
    plain, net = network(), network()
    call = Graphed(net, net)
    (call(batch(1)).sum() + call(batch(2, 4)).sum()).backward()
    assert len(call.captured) == 1
    (plain(batch(1)).sum() + plain(batch(2, 4)).sum()).backward()
    assert_same(*([weight.grad.cpu() for weight in one.parameters()] for one in (net, plain)))
    call(batch(2, 4))
    assert len(call.captured) == 2


def test_nothing_is_captured_while_a_loss_of_the_network_is_kept(recorder):
    """A loop's variable may hold the last loss when the next step, of a smaller batch, begins."""
    plain, net = network(), network()
    call = Graphed(net, net)
    for each in (plain, call):
        kept = each(batch(1)).sum()
        kept.backward()
        each(batch(2, 4)).sum().backward()
    assert len(call.captured) == 1
    assert_same(*([weight.grad.cpu() for weight in one.parameters()] for one in (net, plain)))
    del kept
    call(batch(2, 4))
    assert len(call.captured) == 2


def test_a_weight_that_layers_share_has_one_gradient(recorder):
    first, second = (nn.Sequential(nn.Flatten(), nn.Linear(6, 6), nn.Linear(6, 6)).to(GPU) for _ in range(2))
    second.load_state_dict(first.state_dict())
    x = torch.rand(4, 6, generator=torch.Generator().manual_seed(0)).to(GPU)
    for net in (first, second):
        net[2].weight = net[1].weight
    call = Graphed(first, first)
    for each in (call, second):
        each(x).square().sum().backward()
    assert_same(*([weight.grad.cpu() for weight in one.parameters()] for one in (first, second)))


def test_weights_that_lie_elsewhere_are_captured_again_and_a_copy_has_graphs_of_its_own(recorder):
    net, other = network(), network()
    call = Graphed(net.forward, net)
    call(batch(1))
    copied = deepcopy(call)
    with torch.no_grad():
        for weight, value in zip(net.parameters(), other.parameters(), strict=True):
            weight.data = value.data * 2
        for each in (net, other):
            each.eval()
        for weight in other.parameters():
            weight *= 2
        net.load_state_dict(other.state_dict())
        assert_same([call(batch(2)).cpu()], [other(batch(2)).cpu()])
        before = None if recorder is None else recorder.recorded
        net[4].bias.data = net[4].bias.data + 1
        assert_same([call(batch(2)).cpu()], [other(batch(2)).cpu() + 1])
        assert recorder is None or recorder.recorded == before + 1
    assert not copied.captured
    assert copied.modules[1] is copied.call.__self__[0]
    assert copied.modules[1] is not net[0]


def test_results_without_gradient_are_told_too(recorder):
    plain, net = network(), network()

    def call(layers, x):
        middle = layers[:4](x)
        return layers[4](middle), middle.detach()

    graphed = Graphed(partial(call, net), net)
    for seed in (1, 2):
        (output, features), (expected, expected_features) = graphed(batch(seed)), call(plain, batch(seed))
        assert not features.requires_grad
        output.square().sum().backward()
        expected.square().sum().backward()
        assert_same([output.detach().cpu(), features.cpu()], [expected.detach().cpu(), expected_features.cpu()])
    assert_same(*([weight.grad.cpu() for weight in one.parameters()] for one in (net, plain)))
    for weight in net.parameters():
        weight.requires_grad_(False)
    assert not any(each.requires_grad for each in graphed(batch(3)))


def test_hooks_see_every_pass(recorder):
    net, calls = network(), []
    call = Graphed(net, net)
    call(batch(1))
    hook = net[1].register_forward_hook(lambda *_: calls.append(1))
    for _ in range(2):
        call(batch(1))
    assert len(calls) == 2
    hook.remove()
    call(batch(1))
    assert len(calls) == 2
    assert len(call.captured) == 1


def test_a_hook_of_all_modules_sees_every_pass(recorder):
    net, calls = network(), []
    call = Graphed(net, net)
    hook = nn.modules.module.register_module_forward_hook(lambda *_: calls.append(1))
    try:
        call(batch(1)), call(batch(1))
    finally:
        hook.remove()
    assert len(calls) == 2 * 6
    assert not call.captured


@pytest.fixture
def own_flags():
    """Restores the flags of torch that a test may set."""
    cudnn, products = torch.backends.cudnn, torch.backends.cuda.matmul
    before = cudnn.conv.fp32_precision, products.fp32_precision, cudnn.deterministic
    yield
    cudnn.conv.fp32_precision, products.fp32_precision, cudnn.deterministic = before
    torch.use_deterministic_algorithms(False)


CHANGES = {
    "momentum": lambda net: setattr(net[1], "momentum", 0.5),
    "eps": lambda net: setattr(net[1], "eps", 0.1),
    "dropout": lambda net: setattr(net[4], "p", 0.75),
    "TF32 of products": lambda net: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"),
    "float32 of convolutions": lambda net: setattr(torch.backends.cudnn.conv, "fp32_precision", "ieee"),
    "cuDNN": lambda net: setattr(torch.backends.cudnn, "deterministic", True),
    "all operators": lambda net: torch.use_deterministic_algorithms(True),
}


def with_dropout():
    net = network()
    return nn.Sequential(*net[:4], nn.Dropout(0.25), net[4])


@pytest.mark.parametrize("change", [*CHANGES])
@pytest.mark.parametrize("copied", [False, True], ids=["", "copied"])
def test_what_changes_the_numbers_of_a_pass_is_captured_again(change, copied, recorder, own_flags):
    plain, net = with_dropout(), with_dropout()
    call = Graphed(net.forward, net)
    if copied:
        call = deepcopy(call)
        net = call.call.__self__
    for kind in (plain, call):
        torch.manual_seed(1)
        kind(batch(1))
    assert len(call.captured) == 1
    for each in (net, plain):
        CHANGES[change](each)
    results = []
    for kind in (call, plain):
        torch.manual_seed(2)
        results.append(kind(batch(2)).detach().cpu())
    assert len(call.captured) == 2
    assert_same(*([each] for each in results))
    assert_same(state(net), state(plain))


def test_a_capture_draws_no_random_numbers_and_a_replay_draws_those_of_the_network(recorder):
    results = []
    for graphed in (False, True):
        net = with_dropout()
        call = Graphed(net, net) if graphed else net
        torch.manual_seed(1)
        results.append([call(batch(seed)).detach().cpu() for seed in (1, 2, 3)])
    assert_same(*results)


def test_a_hook_of_a_weight_changes_its_gradient_once(recorder):
    plain, net = network(), network()
    call = Graphed(net, net)
    hooks = [each[4].weight.register_hook(lambda gradient: gradient / 2) for each in (plain, net)]
    for each in (plain, call):
        each(batch(1)).square().sum().backward()
    assert_same([net[4].weight.grad.cpu()], [plain[4].weight.grad.cpu()])
    assert not call.captured
    hooks[1].remove()
    call(batch(1))
    assert len(call.captured) == 1


def test_a_replay_casts_the_weights_of_now(recorder, monkeypatch):
    """Autocast caches a cast weight; a graph that reads an earlier pass's cast never learns."""
    record, casts, net = graphs.record, Casts(), network()

    def record_casts(run, pool):
        with casts if pool is None else nullcontext():
            return record(run, pool)

    monkeypatch.setattr(graphs, "record", record_casts)
    with torch.amp.autocast("cuda" if REAL else "cpu", dtype=torch.bfloat16):
        Graphed(net, net)(batch(1))
    assert {tuple(net[0].weight.shape), tuple(net[4].weight.shape)} <= {*casts.shapes}


@pytest.mark.parametrize("writes", [True, False], ids=["written", "replaced"])
def test_a_buffer_that_is_replaced_at_each_pass_is_refused(writes, recorder):
    class Centred(nn.Linear):
        def forward(self, x):
            mean = 0.9 * self.mean + 0.1 * super().forward(x).detach().mean(dim=0)
            self.mean = self.mean.copy_(mean) if writes else mean
            return super().forward(x) - self.mean

    plain, net = Centred(3, 2), Centred(3, 2)
    net.load_state_dict(plain.state_dict())
    for each in (plain, net):
        each.register_buffer("mean", torch.zeros(2))
        each.to(GPU)
    call, x = Graphed(net, net), torch.rand(4, 3, generator=torch.Generator().manual_seed(0)).to(GPU)
    if not writes:
        with pytest.raises(InputError, match=r"gives a buffer another tensor at each pass.*ANNULUS_COMPILE=yes"):
            call(x)
        return
    for _ in range(2):
        assert_same([call(x).detach().cpu()], [plain(x).detach().cpu()])
    assert len(call.captured) == 1


def test_off_a_gpu_the_call_runs_as_it_is():
    net = nn.Linear(3, 2)
    call = Graphed(net, net)
    x = torch.rand(4, 3)
    assert torch.equal(call(x), net(x))
    assert not call.captured
