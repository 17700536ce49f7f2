"""Two processes give the results of one: whole trainings, method by method, and the pretrain stage as a user starts it.

The bits differ: two processes add two half sums, which float32 rounds differently, and training amplifies the
difference. So whole trainings compute in float64, where rounding cannot hide a fault.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from collections import Counter
from unittest import mock

import pytest
import torch
import torch.distributed as dist
import warm
import yaml
from by_path import ROOT
from gloo import together
from safetensors.torch import load_file
from settings import SMALL, changed, observer, run, stripes
from torch.nn.parallel import DistributedDataParallel

import annulus
from annulus.bounds import DCL, MLCPC, cpc, dcl, mlcpc
from annulus.device.distributed import local, mean_, rank, world_size
from annulus.device.rng import generator
from annulus.encoders.batchnorm import SyncBatchNorm
from annulus.errors import InputError
from annulus.files.images import save_images
from annulus.negatives import ring
from annulus.negatives.random_numbers import Shared, fractions, integers
from annulus.training.online_probe import OnlineProbe

SCALE = {"epochs": 2, "batch_size": 8, "negatives": 10, "queue": 20, "learning_rate": 0.48, "validation_images": None}
COMMON = {"seeds": [0], "scales.tiny.pretrain": SCALE, "anneal": "none", "methods.moco.shuffle_groups": 2}
MOVING = {"normaliser": "moving-average", "constant": 1.0, "rate": 0.5}  # over the scores of all processes
CASES = {
    "ir critic": {"method": "ir", "methods.ir.critic": "mlp-1", "sampler": "uniform"},
    "ir cave binary": {"method": "ir", "sampler": "cave", "bound": "binary-nce", "bounds.binary-nce": MOVING},
    "ir mlcpc": {"method": "ir", "bound": "mlcpc", "sampler": "ball"},
    "ir la": {"method": "ir", "bound": "la", "neighbours": "s", "methods.ir.negatives": "all"},
    "cmc": {"split": "lab"},
    "pirl": {"method": "pirl", "split": "lab"},
    "moco jigsaw": {"method": "moco-jigsaw", "split": "lab", "methods.moco-jigsaw.shuffle_groups": 2},
    "moco drawn": {"method": "moco", "methods.moco.negatives": "sampled"},
    "simclr drawn": {"method": "simclr", "methods.simclr.negatives": "sampled", "sampler": "ring"},
    "simclr mlcpc": {"method": "simclr", "bound": "mlcpc", "sampler": "uniform"},
    "simo sync": {"method": "simo"},
    "simo shuffle": {"method": "simo", "methods.simo.batch_norm": "shuffle", "methods.simo.shuffle_groups": 2},
}
MEMORIES = ("banks.0.rows", "banks.1.rows", "queues.0.keys", "queues.0.images", "queues.0.next")


def whole_run(changes):
    """Results of a run of six steps: history, tensors, the last gradients, random states."""
    torch.manual_seed(rank())  # draws from the global generator would differ
    torch.set_default_dtype(torch.float64)
    with mock.patch.object(torch.Tensor, "float", torch.Tensor.double):
        training = run(COMMON | changes, images=26, validation=6)
        history = training.run()
    torch.set_default_dtype(torch.float32)
    state, weights = training.method.state_dict(), training.method.named_parameters()
    return {
        "history": history,
        "tensors": {name: value for name, value in state.items() if isinstance(value, torch.Tensor)},
        "gradients": {name: weight.grad for name, weight in weights if weight.grad is not None},
        "generators": [value["generator"] for name, value in state.items() if name.endswith("extra_state")]
        + [training.view_generator.get_state()],
    }


def distance(actual, expected):
    """The distance between two lists of tensors, as a share of the norm of `expected`."""
    actual, expected = (torch.cat([each.double().flatten() for each in tensors]) for tensors in (actual, expected))
    return ((actual - expected).norm() / expected.norm().clamp_min(1e-12)).item()


QUICK = ("ir critic", "ir mlcpc", "pirl", "moco drawn", "simclr drawn", "simo sync")
RUNS = [(case, 2) for case in QUICK]
RUNS += [pytest.param(case, 2, marks=pytest.mark.slow) for case in CASES if case not in QUICK]
RUNS += [pytest.param(case, 4, marks=pytest.mark.slow) for case in ("simclr drawn", "ir mlcpc")]


@pytest.mark.parametrize(("case", "processes"), RUNS)
def test_a_whole_run_of_several_processes_is_that_of_one(case, processes):
    """Equal are loss, bound, accuracy, weights, batch-norm statistics, banks, queues, gradients and random states."""
    one = whole_run(CASES[case])
    two, *_, other = together(whole_run, CASES[case], processes=processes)
    assert len(one["history"]) == len(two["history"]) == 2
    for row, expected in zip(two["history"], one["history"], strict=True):
        assert row == pytest.approx(expected, rel=1e-10, abs=1e-12)
    for kind in ("tensors", "gradients"):
        assert two[kind].keys() == one[kind].keys()
        for name, expected in one[kind].items():
            if expected.is_floating_point():
                # The gradient of a bias before a softmax is rounding alone.
                assert distance([two[kind][name]], [expected]) < 1e-10 or expected.norm() < 1e-6, f"{kind} {name}"
            else:
                assert torch.equal(two[kind][name], expected), f"{kind} {name}"
    assert any(name in one["tensors"] for name in MEMORIES) or case.startswith("sim")
    for kind in ("tensors", "gradients"):
        for name, value in two[kind].items():
            assert torch.equal(value, other[kind][name]), f"{kind} {name}: nothing would bring them together again"
    assert all(map(torch.equal, two["generators"], one["generators"]))
    assert all(map(torch.equal, two["generators"], other["generators"]))


def draws(queries):
    """Integers and fractions that a batch of two views draws."""
    random = Shared(generator(0, "draws"), views=2)
    return integers(1000, queries, 5, random), fractions(queries, 5, random, at_once=3)


def test_each_process_takes_its_own_queries_numbers_of_those_that_one_draws():
    for parts, expected in zip(zip(*together(draws, 4), strict=True), draws(8), strict=True):
        for process, numbers in enumerate(parts):
            assert torch.equal(numbers, expected.view(2, 2, 2, 5)[:, process].flatten(0, 1))


def bytes_sent(changes):
    """Bytes of a step by sending function; counts of weights, batch-norm channels and probe features."""
    traffic = Counter()

    def counting(name):
        call = getattr(dist, name)

        def counted(*tensors, **options):
            traffic[name] += tensors[-1].nbytes
            return call(*tensors, **options)

        return mock.patch.object(dist, name, counted)

    training = run(COMMON | changes, images=26)
    training.method.train()
    order = training.order()
    with counting("all_gather_into_tensor"), counting("all_reduce"):
        training.step(order)
    norms = [norm.weight for norm in training.method.modules() if isinstance(norm, SyncBatchNorm)]  # of keys too
    features = len(observer(training, OnlineProbe).mean)
    inputs = features * training.method.queries_per_image  # numbers that the probe reads of an image
    return traffic, *(sum(tensor.numel() for tensor in tensors) for tensors in (training.trainable, norms)), inputs


@pytest.mark.parametrize("case", ["ir critic", "ir mlcpc", "moco drawn", "simo sync"])
def test_a_step_sends_gradients_statistics_and_the_batch_s_features_whatever_the_size_of_the_memory(case):
    batch, values = SCALE["batch_size"] // 2, 4
    (traffic, weights, channels, inputs), _ = together(bytes_sent, CASES[case])
    assert traffic["all_reduce"] < 1.01 * values * (weights + 2 * channels)
    embeddings, inputs = values * batch * SMALL["methods.ir.embedding_dim"], values * batch * inputs
    statistics = 4.1 if case == "moco drawn" else 2.1  # mean and variance of each group of keys too
    gathered = embeddings + inputs + values * statistics * channels
    assert embeddings + inputs < traffic["all_gather_into_tensor"] < 1.3 * gathered


def images_read(changes):
    """Images of the batch, and the images that this process reads."""
    training = run(COMMON | changes, images=26)
    training.method.train()
    order = training.order()
    with mock.patch.object(training.images, "take", wraps=training.images.take) as take:
        training.step(order)
    return order[0].tolist(), take.call_args.args[0].tolist()


@pytest.mark.parametrize("case", ["ir critic", "moco drawn", "simo shuffle"])
def test_a_process_reads_the_images_whose_views_it_shows(case):
    (batch, first), (_, second) = together(images_read, CASES[case])
    each = len(batch) // 2
    assert {*batch[:each]} <= {*first}
    assert {*batch[each:]} <= {*second}
    if case == "ir critic":  # other methods also make keys, of shuffled images
        assert len(first) == len(second) == each


def count_collectives():
    """Counts the collectives of public functions that another library calls in its own group of processes."""
    scores, own = torch.randn(3, 12, generator=generator(0, "scores")), torch.arange(3)
    with mock.patch.multiple(dist, all_gather_into_tensor=mock.DEFAULT, all_reduce=mock.DEFAULT) as calls:
        drawn = ring(scores, own, 0.1, 0.5, 4, generator(0, "draws"))
        cpc(scores[:, :1], drawn.gather(scores), 2.0)
        mlcpc(scores[:, 0], drawn.gather(scores), 2.0)
        dcl(scores[:, :1], drawn.gather(scores), sharpness=0.4)
    return [call.call_count for call in calls.values()]


def test_public_functions_ask_no_other_process():
    assert together(count_collectives) == [[0, 0], [0, 0]]


OWN = {
    "ir": (annulus.IR, {}),
    "moco": (annulus.MoCo, {"queue": 16, "shuffle_groups": 2}),
    "simclr": (annulus.SimCLR, {}),
    "simo": (annulus.methods.SiMo, {"batch_norm": "shuffle", "shuffle_groups": 2}),
}


def whole_batch_loss(bound, scores):
    """Loss and gradient of this process's queries."""
    mine = local(scores).clone().requires_grad_()
    loss = bound.loss(mine[:, :1], mine[:, 1:], 0.5)
    return loss.item(), *torch.autograd.grad(loss, mine)


@pytest.mark.parametrize("bound", [MLCPC(0.3, 0.3), DCL(sigma=0.5).at(0.5)], ids=["mlcpc", "dclw"])
def test_a_loss_of_the_whole_batch_is_the_mean_over_processes_that_have_other_numbers_of_negatives(bound):
    scores = torch.randn(6, 9, generator=generator(0, "scores"), dtype=torch.float64)
    scores[0, 4:] = -torch.inf  # of the first process's queries
    expected, slope = whole_batch_loss(bound, scores)
    losses, slopes = zip(*together(whole_batch_loss, bound, scores), strict=True)
    assert sum(losses) / 2 == pytest.approx(expected, rel=1e-12)
    torch.testing.assert_close(torch.cat(slopes) / 2, slope)


def own_loop(name, wraps="network", numbered=True):
    """Losses and all weights of a user's own loop; each process has the views of its share.

    `wraps`: the module inside DistributedDataParallel, "network" or "method".
    """
    method, settings = OWN[name]
    random = generator(0, "own loop")
    images = torch.randn(24, 3, 2, 2, generator=random)
    network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 6))
    torch.nn.init.normal_(network[1].weight, generator=random)
    torch.nn.init.zeros_(network[1].bias)
    if world_size() > 1 and wraps == "network":
        network = DistributedDataParallel(network)
    contrast = annulus.ContrastConfig(annulus.negatives.Ball(outer=0.9), negatives=4)
    method = method.create(network, images=24, dim=6, temperature=0.5, contrast=contrast, **settings)
    called = DistributedDataParallel(method) if world_size() > 1 and wraps == "method" else method
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=0.1), []
    for index in torch.arange(24).split(8):
        views = [local(images[index] + 0.3 * torch.randn(8, 3, 2, 2, generator=random)) for _ in range(method.views)]
        index = index if numbered else None
        step = called(views, index)
        optimizer.zero_grad()
        step.estimate.loss.backward()
        optimizer.step()
        method.after_step(index, step)
        losses.append(mean_(step.estimate.loss_nats.clone()))
    return torch.cat([torch.stack(losses), *(weight.detach().flatten() for weight in method.parameters())])


@pytest.mark.parametrize("name", OWN)
def test_a_loop_of_one_s_own_in_two_processes_gives_each_the_views_of_its_share(name):
    """This holds with shuffling too: views are sent to the processes that the shuffle selects."""
    expected = own_loop(name)
    for results in together(own_loop, name):
        torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", OWN)
def test_a_whole_method_under_distributed_data_parallel_is_the_method(name):
    expected, numbered = own_loop(name), not name.startswith("sim")
    for results in together(own_loop, name, "method", numbered):
        torch.testing.assert_close(results, expected, rtol=1e-4, atol=1e-5)


def own_index():
    """Error message for an index of one process's images only."""
    method = annulus.SimCLR.create(torch.nn.Flatten(), images=8, dim=12)
    with pytest.raises(InputError) as error:
        method.loss([torch.ones(4, 3, 2, 2), torch.ones(4, 3, 2, 2)], torch.arange(4))
    return str(error.value)


def test_an_index_of_one_process_s_images_is_refused_with_the_way_out():
    sentence = (
        "views of 8 and 8 images of all 2 processes, index of 4: give each image of the batch its views and its "
        "number, 2 or more images; index is of the whole batch, in rank order, by torch.distributed.all_gather"
    )
    assert together(own_index) == [sentence] * 2


def refusal(changes):
    """Error message of a run."""
    with pytest.raises(InputError) as error:
        run(COMMON | changes, images=26).run()
    return str(error.value)


def test_what_two_processes_cannot_share_is_refused():
    shared = "cannot be shared evenly by 2 processes; take a"
    for changes, sentence in (
        (
            {"scales.tiny.pretrain": SCALE | {"batch_size": 7}},
            f"a batch of 7 {shared} batch size that is a multiple of 2",
        ),
        ({"method": "moco", "methods.moco.shuffle_groups": 1}, f"shuffle_groups: 1 {shared} multiple of 2"),
    ):
        assert together(refusal, changes) == [sentence] * 2


# --- the stage ------------------------------------------------------------------------------------------


class Stage:
    """The pretrain stage over a small prepared set, in a folder of its own."""

    def __init__(self, folder, changes):
        self.folder = folder
        (folder / "images").mkdir()
        save_images(folder / "images" / "train.safetensors", stripes(26, 0))
        save_images(folder / "images" / "validation.safetensors", stripes(6, 1))
        (folder / "params.yaml").write_text(yaml.safe_dump(changed(SMALL | COMMON | changes), sort_keys=False))

    def command(self, name, **environment):
        """Arguments of Popen that run the stage with its results in folder `name`."""
        (self.folder / name).mkdir(exist_ok=True)
        outputs = ("encoders", "snapshots", "metrics.json", "history.csv")
        words = [f"--{output.partition('.')[0]}={name}/{output}" for output in outputs]
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("DVC_", "MLFLOW_"))}
        return {
            "args": [str(warm.folder() / "python"), str(ROOT / "stages"), "pretrain", "--images=images", *words],
            "cwd": self.folder,
            "env": inherited | {"OMP_NUM_THREADS": "1"} | environment,
            "text": True,
            "stderr": subprocess.STDOUT,
            "stdout": subprocess.PIPE,
            "start_new_session": True,
        }

    def run(self, name, ends_well=True, **environment):
        """Runs the stage and returns its output."""
        with subprocess.Popen(**self.command(name, **environment)) as process:
            output, _ = process.communicate()
        assert (process.returncode == 0) == ends_well, output
        return output

    def metrics(self, name):
        """Metrics of the only seed, without `processor`."""
        row = json.loads((self.folder / name / "metrics.json").read_text())["0"]
        return {number: value for number, value in row.items() if number != "processor"}


@pytest.mark.slow
def test_two_killed_processes_go_on_and_write_the_results_of_one_once(tmp_path):
    stage = Stage(tmp_path, {"method": "simclr", "scales.tiny.pretrain": SCALE | {"epochs": 6}})
    stage.run("one")
    shutil.rmtree(tmp_path / ".annulus")  # otherwise the two would resume from its state
    environment = {"ANNULUS_PROCESSES": "2", "ANNULUS_CHECKPOINT_SECONDS": "0"}
    with subprocess.Popen(**stage.command("two", **environment)) as process:
        while not (states := list(tmp_path.glob(".annulus/checkpoints/pretrain/*/*.pt"))):
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.01)
        holder = int(next(states[0].parent.glob("*lock*")).read_text().split()[0])
        os.kill(holder, signal.SIGKILL)  # the launcher ends the other one
        output, _ = process.communicate()
    assert process.returncode != 0, output
    assert not list((tmp_path / "two").iterdir())

    output = stage.run("two", **environment)
    assert "resuming at epoch" in output
    assert output.count("epoch 6/6: loss") == 1, "the first process alone speaks"
    names = (sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("one", "two"))
    assert next(names) == next(names)
    assert stage.metrics("two") == pytest.approx(stage.metrics("one"), rel=1e-4, abs=1e-4)
    for kind, close in (("encoders", 1e-4), ("snapshots", 1e-3)):  # the latter in float16
        one, two = (load_file(tmp_path / name / kind / "0.safetensors") for name in ("one", "two"))
        assert two.keys() == one.keys()
        assert distance((two[name] for name in one), one.values()) < close
    assert len(list(tmp_path.glob(".annulus/checkpoints/*/*/let-go"))) == 1, "the next stage removes it"


@pytest.mark.slow
def test_a_mistake_in_two_processes_is_still_said_in_a_sentence(tmp_path):
    stage = Stage(tmp_path, {"method": "moco", "scales.tiny.pretrain": SCALE | {"queue": 3}})
    output = stage.run("two", ANNULUS_PROCESSES="2", ends_well=False)
    assert "queue: 3 is shorter than the batch of" in output
    assert output.count("ERROR: ") == 1
    assert not list((tmp_path / "two").iterdir())
