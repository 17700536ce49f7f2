"""Several processes against one: shares, gathering, means of gradients; test_two_processes.py has whole trainings."""

from unittest import mock

import pytest
import torch
import torch.distributed as dist
from gloo import together
from torch import nn

from annulus.device import distributed
from annulus.device.distributed import all_gather_with_grad, local, local_slice, process_group, rank
from annulus.errors import InputError
from annulus.optim import gradients
from annulus.optim.gradients import GradientMeans

TORCHRUN = {"WORLD_SIZE": "2", "RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}


@pytest.fixture
def environment(monkeypatch):
    """Function that sets these variables of torchrun and unsets the others."""

    def set_(**variables):
        for name in TORCHRUN:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_


def assert_refused(message):
    with pytest.raises(InputError, match=message), process_group():
        pass


def test_in_one_process_every_function_hands_back_what_it_was_given(environment):
    for variables in ({}, {"WORLD_SIZE": "1"}):
        environment(**variables)
        with process_group():
            assert not dist.is_initialized()
    x = torch.arange(6.0).view(3, 2).requires_grad_()
    assert (distributed.world_size(), rank(), local_slice(3)) == (1, 0, slice(0, 3))
    for function in (all_gather_with_grad, distributed.all_gather, distributed.all_reduce_, distributed.broadcast):
        assert function(x) is x
    assert torch.equal(local(x), x)
    parameter = nn.Parameter(torch.ones(2))
    parameter.grad = gradient = torch.full((2,), 3.0)
    GradientMeans([parameter]).wait()
    assert parameter.grad is gradient
    assert gradient.tolist() == [3, 3]


def test_each_process_has_its_own_gpu_and_cpu_tensors_travel_too(environment, monkeypatch):
    environment(WORLD_SIZE="2", RANK="0")
    assert_refused(
        r"WORLD_SIZE is 2 .* not set are LOCAL_RANK, MASTER_ADDR, MASTER_PORT; start with `torchrun .* or unset"
    )
    environment(**TORCHRUN | {"LOCAL_RANK": "1"})
    calls = []
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert_refused(r"process 2 on this machine sees 1 GPUs.*--nproc-per-node 1")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", calls.append)
    monkeypatch.setattr(dist, "init_process_group", calls.append)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: calls.append("destroyed"))
    with process_group():
        assert calls == [1, "cpu:gloo,cuda:nccl"]
    assert calls[2:] == ["destroyed"]


def test_an_ended_process_is_told_after_it_could_speak_and_no_other_error_is_taken_for_one(environment, monkeypatch):
    environment(**TORCHRUN)
    waits = []
    monkeypatch.setattr(dist, "init_process_group", lambda backend: None)
    monkeypatch.setattr(dist, "destroy_process_group", lambda: None)
    monkeypatch.setattr(distributed.time, "sleep", waits.append)
    with (
        pytest.raises(InputError, match="another process of this run has ended: it printed its error"),
        process_group(),
    ):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1")
    assert waits == [distributed.OTHERS_SPEAK_SECONDS]
    for error in (RuntimeError("/data/igloos: shape [2, 3]"), dist.DistBackendError("Duplicate GPU detected")):
        with pytest.raises(type(error)) as raised, process_group():
            raise error
        assert raised.value is error
    assert len(waits) == 1


def shares(batch):
    first = distributed.broadcast({"read by": rank()})
    return first, distributed.world_size(), local_slice(len(batch)), local(batch), all_gather_with_grad(local(batch))


NUMBERS = torch.arange(36.0) / 7
BATCHES = [torch.arange(8), NUMBERS.view(6, 2, 3), NUMBERS[:12].view(4, 3).bfloat16(), NUMBERS[:12].view(3, 4).T]


def test_gathering_the_shares_gives_the_batch_in_rank_order_and_what_the_first_read_reaches_all():
    for batch in BATCHES:
        half = len(batch) // 2
        for number, (first, world_size, rows, mine, everyone) in enumerate(together(shares, batch)):
            assert (first, world_size, rows) == ({"read by": 0}, 2, slice(number * half, (number + 1) * half))
            assert torch.equal(mine, batch[rows])
            assert torch.equal(everyone, batch)
            assert everyone.dtype == batch.dtype


def squared_gradient(rows):
    """Gradient, for this process's rows, of the squared gradient of a loss in which each row meets every other."""
    rows = local(rows).clone().requires_grad_()
    everyone = all_gather_with_grad(rows)
    loss = (1 + rank()) * (everyone.sum(dim=0).pow(3).sum() + everyone.pow(3).sum())
    (gradient,) = torch.autograd.grad(loss, rows, create_graph=True)
    return torch.autograd.grad(gradient.square().sum(), rows)[0]


def test_a_second_derivative_through_gathered_rows_is_that_of_the_sum_of_losses():
    rows = NUMBERS.view(6, 6).double()
    alone = squared_gradient(rows)
    torch.testing.assert_close(torch.cat(together(squared_gradient, rows)), 9 * alone)  # losses of weight 1 and 2


def gathered_gradient(rows):
    rows, upstream = local(rows).clone().requires_grad_(), torch.ones(6, 6, dtype=torch.double)
    all_gather_with_grad(rows).backward(upstream)
    return rows.grad, upstream


def test_a_gradient_through_gathered_rows_is_the_sum_and_the_given_one_stays_as_it_is():
    for gradient, upstream in together(gathered_gradient, NUMBERS.view(6, 6).double()):
        assert gradient.unique().tolist() == [2]
        assert upstream.unique().tolist() == [1]


def average_gradients(bucket):
    shapes = {"plain": (3,), "scalar": (), "half": (2, 2), "last": (4, 3, 2, 2), "alone": (2,), "nowhere": (2,)}
    parameters = {name: nn.Parameter(torch.zeros(shape)) for name, shape in shapes.items()}
    parameters["half"] = nn.Parameter(torch.zeros(2, 2, dtype=torch.bfloat16))
    for name in ("plain", "scalar", "half"):
        parameters[name].grad = torch.full_like(parameters[name], 1.0 + 2 * rank())
    values = torch.arange(48.0).view(4, 3, 2, 2) * (1 - 2 * rank()) + rank()
    parameters["last"].grad = values.contiguous(memory_format=torch.channels_last)
    if rank() == 1:
        parameters["alone"].grad = torch.tensor([4.0, 6.0])
    own = parameters["last"].grad
    with mock.patch.object(gradients, "BUCKET", bucket):
        GradientMeans(iter([*parameters.values(), nn.Parameter(torch.zeros(2), requires_grad=False)])).wait()
    assert parameters["last"].grad is own
    return {name: parameter.grad for name, parameter in parameters.items()}


@pytest.mark.parametrize("bucket", [1, 2**24])
def test_gradients_are_averaged_whatever_their_type_layout_and_presence(bucket):
    for means in together(average_gradients, bucket):
        assert means.pop("nowhere") is None
        assert means["half"].dtype == torch.bfloat16
        assert means["last"].is_contiguous(memory_format=torch.channels_last)
        assert means.pop("alone").tolist() == [2, 3]
        assert {name: gradient.unique().tolist() for name, gradient in means.items()} == {
            **{"plain": [2], "scalar": [2], "half": [2], "last": [0.5]}
        }


def overlap():
    """Gradients of two steps, and the number of buckets, of one parameter each, sent before each layer of backward."""
    layers = nn.Sequential(*(nn.Linear(2, 2, bias=False) for _ in range(4)), nn.Linear(2, 2).requires_grad_(False))
    values, sent = [], []
    with mock.patch.object(gradients, "BUCKET", 1):
        means = GradientMeans(layers.parameters())
    for step in range(2):
        for layer in layers[:4]:
            layer.weight.data.copy_(torch.eye(2))
            layer.weight.grad = None
            layer.weight.register_hook(lambda _: sent.append(means.sent))
        layers[:4](torch.full((1, 2), 1.0 + step + rank())).sum().backward()
        means.wait()
        values += [layer.weight.grad.unique().item() for layer in layers[:4]]
    layers[:4](torch.ones(1, 2)).sum().backward()
    with pytest.raises(RuntimeError, match=r"backward ran twice before `GradientMeans.wait`"):
        layers[:4](torch.ones(1, 2)).sum().backward()
    means.wait()
    return values, sent[:4]


def test_gradients_travel_while_backward_computes_the_others():
    for values, sent in together(overlap):
        assert values == [1.5] * 4 + [2.5] * 4
        assert sent == [0, 1, 2, 3]
