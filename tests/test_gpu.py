"""A GPU against a CPU, and against itself: `python -m pytest -q tests/test_gpu.py` on a machine that has one.

`tests/gpu.sh WHEELS` runs it on a machine without a network. PRETENDED_GPU=yes runs these tests without a GPU
(pretended_gpu.py), to find slips in the tests themselves.
"""

import hashlib
import itertools
import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext

import pytest
import torch
from by_path import ROOT
from compiled_steps import compare_steps
from gpu_cases import CASES, CHOICES, fits, settings_of, start_training
from pretended_gpu import PretendedGPU
from settings import CPU, killed_after, observer, read, stripes

import annulus
from annulus import methods, negatives
from annulus.device import device
from annulus.negatives import threshold
from annulus.running.checkpoint import Checkpoint
from annulus.training.measurement import Measurement
from annulus.training.setup import build_training
from annulus.views.recipe import augment

REAL, PRETENDED = torch.cuda.is_available(), "PRETENDED_GPU" in os.environ
pytestmark = [
    pytest.mark.skipif(not (REAL or PRETENDED), reason="no GPU is here; PRETENDED_GPU=yes takes the CPU for one"),
    pytest.mark.slow,
]
GPU = torch.device("cuda")
# The bits of a product depend on cuBLAS's workspace, which it allocates once in a process.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.fixture
def gpu():
    """A function that opens a context in which no wait for the GPU may happen."""
    with nullcontext() if REAL else PretendedGPU() as pretended:
        yield lambda: never_waits(pretended)


@contextmanager
def never_waits(pretended):
    if pretended is None:
        torch.cuda.synchronize()
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode("default")
    else:
        with pretended.counting() as counts:
            yield
        assert not counts.waits, counts.table()


@pytest.fixture
def in_float32(monkeypatch):
    """Encoders compute in float32 on a GPU too, and no product is rounded to TF32."""
    autocast = torch.autocast
    monkeypatch.setattr(torch, "autocast", lambda *args, **settings: autocast(*args, **settings | {"enabled": False}))
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)


@pytest.fixture
def deterministic(monkeypatch):
    monkeypatch.setenv("ANNULUS_DETERMINISTIC", "yes")
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", True)
    device._compute_deterministically()
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


# --- against a CPU ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize("method", CHOICES["method"])
@pytest.mark.parametrize("sampler", CHOICES["sampler"])
def test_first_losses_of_every_combination_are_those_of_a_cpu(method, sampler, gpu):
    """All columns are negatives, since a GPU draws others than a CPU."""
    for neighbours, bound in itertools.product(CHOICES["neighbours"], CHOICES["bound"]):
        case = {"method": method, "sampler": sampler, "neighbours": neighbours, "bound": bound}
        if not fits(case):
            continue
        changes = settings_of(case | {"negatives": "all", "views": "strong" if bound == "infonce" else "none"})
        on_cpu, order = start_training(changes, CPU)
        on_gpu, gpu_order = start_training(changes, GPU)
        start = {name: value for name, value in on_cpu.method.state_dict().items() if isinstance(value, torch.Tensor)}
        on_gpu.method.load_state_dict(start, strict=False)  # with clusters; each side keeps its own random states
        for _ in range(2):
            on_cpu.step(order)
            on_gpu.step(gpu_order)
        actual, expected = (observer(each, Measurement).steps[2:4].cpu() for each in (on_gpu, on_cpu))
        assert expected.isfinite().all()
        torch.testing.assert_close(actual, expected, rtol=1e-3, atol=1e-4, msg=lambda text, at=case: f"{at}: {text}")


@pytest.mark.parametrize(("queries", "columns"), [(256, 4096), (33, 50_001), (8, 1_281_167)])
@pytest.mark.parametrize("spread", [1.0, 2**-20])
def test_selection_is_that_of_plain_pytorch(queries, columns, spread, gpu):
    generator = torch.Generator().manual_seed(0)
    scores = (1 + spread * torch.randn(queries, columns, generator=generator)).to(GPU)  # a small spread has ties
    own = torch.randint(-1, columns, (queries, 2), generator=generator).to(GPU)
    first, last = columns // 100, columns // 10
    picked = torch.randint(last - first, (queries, 1000), generator=generator).to(GPU)
    threshold.select(scores, own, first, last, picked)
    with gpu():
        listed = threshold.select(scores, own, first, last)
        drawn = threshold.select(scores, own, first, last, picked)
    expected = threshold.plain(scores, own, first, last)
    assert torch.equal(listed.cpu(), expected.cpu())
    assert torch.equal(drawn.cpu(), expected.gather(1, picked).cpu())


@pytest.mark.parametrize(("height", "width", "size"), [(32, 32, 32), (250, 300, 224)])
def test_views_are_those_of_a_cpu(height, width, size, gpu):
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (64, 3, height, width), generator=generator, dtype=torch.uint8)
    views, there = read({"views": "strong"}).views, images.to(GPU)
    augment(there, views, size, torch.Generator().manual_seed(1))
    with gpu():
        actual = augment(there, views, size, torch.Generator().manual_seed(2))
    expected = augment(images, views, size, torch.Generator().manual_seed(2))
    difference = (actual.cpu() - expected).abs()
    assert difference.max() < 2e-3, "grey pixels have next to no hue, and rounding turns it"
    assert difference.mean() < 1e-5, "sums of many pixels, in another order: 1.2e-6 on an H200"


def test_operators_of_rand_augment_are_those_of_a_cpu(gpu):
    """Operators round to levels of grey, so a few pixels may be a level apart."""
    images = torch.randint(0, 256, (512, 3, 32, 32), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
    views, there = read({"views": "infomin"}).views, images.to(GPU)
    augment(there, views, 32, torch.Generator().manual_seed(1))
    with gpu():
        actual = augment(there, views, 32, torch.Generator().manual_seed(2))
    difference = (actual.cpu() - augment(images, views, 32, torch.Generator().manual_seed(2))).abs()
    assert (difference > 2e-3).float().mean() < 1e-3


@pytest.mark.usefixtures("in_float32")
@pytest.mark.parametrize("kind", [methods.IR, methods.PIRL, methods.MoCo, methods.MoCoJigsaw, methods.SimCLR])
def test_a_loop_of_one_s_own_is_that_of_a_cpu_and_checks_without_waiting(kind, gpu):
    images = torch.rand(24, 3, 24, 24, generator=torch.Generator().manual_seed(0))
    contrast, losses = annulus.ContrastConfig(negatives.Ball(outer=0.9), negatives="all"), {}
    config = annulus.EncoderConfig("convnet", "cifar", "linear", 6, 24, None, (0.5,) * 3, (0.25,) * 3)
    for place in (CPU, GPU):
        queue = {"queue": 16} if issubclass(kind, methods.MoCo) else {}
        encoder = annulus.build_encoder(config, seed=0)
        method = kind.create(encoder, images=24, dim=6, contrast=contrast, **queue).to(place)
        inputs, numbers = images.to(place), torch.arange(24, device=place)
        optimizer, losses[place] = torch.optim.SGD(method.parameters(), lr=0.1), []
        for step, index in enumerate(numbers.split(8)):
            views = [inputs[8 * step : 8 * step + 8] * (1 - 0.1 * view) for view in range(method.views)]
            with gpu() if place == GPU and step else nullcontext():
                result = method.loss(views, index)
                optimizer.zero_grad()
                result.estimate.loss.backward()
                optimizer.step()
                method.after_step(index, result)
            losses[place].append(result.estimate.loss_nats.cpu())
    torch.testing.assert_close(losses[GPU], losses[CPU], rtol=1e-3, atol=1e-4)


def test_draws_by_weight_come_as_often_as_the_weights_say(gpu):
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(4, 50, generator=generator).exp().to(GPU)
    weights[:, 7] = 0
    own, random = torch.arange(4).to(GPU), torch.Generator(GPU).manual_seed(0)
    negatives.draw_weighted(weights, own, 8, random)
    with gpu():
        index = negatives.draw_weighted(weights, own, 100_000, random).index
    counts = torch.stack([torch.bincount(each, minlength=50) for each in index.cpu()])
    expected = weights.cpu().scatter(1, torch.arange(4)[:, None], 0.0)
    expected = 100_000 * expected / expected.sum(dim=1, keepdim=True)
    assert (counts[expected == 0] == 0).all()
    assert ((counts - expected).abs() < 5 * expected.sqrt() + 1).all()


# --- against itself -----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(case.values()))
def test_a_step_never_waits(case, gpu):
    training, order = start_training(settings_of(case), GPU)
    training.step(order)
    with gpu():
        training.step(order)
    assert observer(training, Measurement).losses[2:4].isfinite().all()


@pytest.mark.skipif(not REAL, reason="nothing is compiled for a pretended GPU")
@pytest.mark.parametrize("method", CHOICES["method"])
@pytest.mark.parametrize("mode", ["yes", "graphs"])
def test_compiled_steps_are_those_of_plain_ones(method, mode):
    """Losses agree up to the rounding of bfloat16, which a compiler does in other places."""
    steps = compare_steps(method, "cuda", mode)
    assert steps["compiled"]["losses"] == pytest.approx(steps["plain"]["losses"], rel=0.02, abs=0.02)
    assert steps["graphs"] > 0


@pytest.mark.usefixtures("deterministic", "gpu")
@pytest.mark.parametrize("method", CHOICES["method"])
@pytest.mark.parametrize(("sampler", "negatives"), [("ring", "sampled"), ("cave", "sampled"), ("uniform", "all")])
def test_a_run_has_the_same_bits_again_and_after_a_kill(method, sampler, negatives, tmp_path, monkeypatch):
    neighbours = "none" if sampler == "uniform" else "s"
    changes = settings_of({"method": method, "sampler": sampler, "neighbours": neighbours, "negatives": negatives})
    first, again, killed, resumed = (
        build_training(read(changes), stripes(70, 0), stripes(10, 1), GPU) for _ in range(4)
    )
    history = first.run()
    assert again.run() == history
    monkeypatch.setenv("DVC_ROOT", str(tmp_path))
    with Checkpoint("pretrain", changes, device=device.described(GPU)) as checkpoint:
        killed_after(killed, 3, checkpoint)
        resumed.run(checkpoint)
    assert resumed.history == history
    for other in (again, resumed):
        for name, value in first.method.state_dict().items():
            if isinstance(value, torch.Tensor):
                assert torch.equal(value.cpu(), other.method.state_dict()[name].cpu()), name


CLUSTERED = """
import hashlib, sys, torch
from annulus.negatives.lloyd import lloyd
rows = torch.randn(20_000, 128, generator=torch.Generator().manual_seed(0)).to(sys.argv[1])
print(hashlib.sha256(lloyd(rows, 300, 5, 3, seed=1).cpu().numpy().tobytes()).hexdigest())
"""


def test_every_process_finds_the_same_clusters():
    """All processes of a group cluster the same rows and must agree."""
    command = [sys.executable, "-c", CLUSTERED, "cuda" if REAL else "cpu"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT / "src"), *sys.path])}
    processes = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    digests = [process.communicate()[0].strip() for process in processes]
    assert digests[0] == digests[1]
    assert len(digests[0]) == hashlib.sha256().digest_size * 2
