"""A training step never waits for a GPU and calls few operators, counted without a GPU (pretended_gpu.py)."""

import linecache
from collections import Counter
from contextlib import nullcontext

import pytest
import torch
from by_path import ROOT
from gpu_cases import CASES, settings_of, start_training
from pretended_gpu import PretendedGPU, pretended_kernels
from settings import CPU, observer, read, run, stripes

from annulus.device.checks import Checks, check
from annulus.device.copies import to_device
from annulus.errors import InputError
from annulus.negatives import clusters
from annulus.running import progress
from annulus.running.checkpoint import Checkpoint
from annulus.training import loop
from annulus.training.measurement import Measurement
from annulus.training.setup import build_training
from annulus.training.soundness import Soundness

# Lines that may wait, each at most once in a step, and the reason.
EXCUSED = {
    "loss = self.measurement.losses[training.batch - 1].item()": "adaptive-step decides by each loss",
    "for number, (_, fault) in zip(numbers.T.tolist(), pending, strict=True):": "checks are evaluated in 1 of 50 steps",
    "if losses.isfinite().all():": "so are losses",
}
HALF = len(CASES) // 2  # the first half holds most pairs of choices
# Most operators of a step of ResNet-18. Fewer are better: these limits may fall, not rise.
OPERATORS = {"ir": 263, "moco": 381}


def count_step(changes, kernels=pretended_kernels):
    """Counts of a step on a pretended GPU, with Triton's kernels or, for `nullcontext`, with PyTorch."""
    with PretendedGPU() as gpu, kernels(gpu):
        training, order = start_training(changes, gpu.device)
        training.step(order)
        with gpu.counting() as counts:
            training.step(order)
    return counts


# --- steps --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "kernels"),
    [
        *((case, pretended_kernels) for case in CASES[:HALF]),
        *(pytest.param(case, pretended_kernels, marks=pytest.mark.slow) for case in CASES[HALF:]),
        *((case, nullcontext) for case in CASES[:2]),
    ],
    ids=lambda value: " ".join(value.values()) if isinstance(value, dict) else value.__name__,
)
def test_a_step_never_waits_for_the_gpu(case, kernels):
    counts = count_step(settings_of(case), kernels)
    assert not counts.waits, counts.table()
    assert counts.copies.total() > 0, "the views' parameters are copied"


@pytest.mark.parametrize("case", [case for case in CASES if case["negatives"] == "all"][:5])
def test_the_paths_of_a_gpu_give_the_numbers_of_a_cpu(case, monkeypatch):
    monkeypatch.setattr(clusters, "lloyd", lambda rows, *counts: clusters.kmeans(rows.cpu(), *counts).to(rows.device))
    on_cpu, order = start_training(settings_of(case), CPU)
    on_cpu.step(order)
    with PretendedGPU(autocast=False) as gpu:
        on_gpu, order = start_training(settings_of(case), gpu.device)
        on_gpu.step(order)
        actual = observer(on_gpu, Measurement).steps[2].cpu()
    torch.testing.assert_close(actual, observer(on_cpu, Measurement).steps[2], rtol=1e-4, atol=1e-5)


def test_what_waits_is_excused_and_waits_once(monkeypatch):
    monkeypatch.setattr(loop, "LOSS_CHECK_STEPS", 1)
    monkeypatch.setattr(progress, "report", lambda *_: None)  # a line of progress waits too, at intervals of time
    counts, waits = count_step({"method": "moco", "anneal": "adaptive-step", "bound": "mlcpc"}), Counter()
    for (_, place), count in counts.waits.items():
        file, line = place.split(":")
        waits[linecache.getline(str(ROOT / "src/annulus" / file), int(line)).strip()] += count
    assert waits == dict.fromkeys(EXCUSED, 1), counts.table()


def test_a_report_that_is_due_waits_only_after_a_step_that_looks(monkeypatch):
    monkeypatch.setattr(progress, "report", lambda done, total, text, ended: text())
    assert not count_step({"method": "moco"}).waits
    monkeypatch.setattr(loop, "LOSS_CHECK_STEPS", 1)
    assert any("training/report.py" in place for _, place in count_step({"method": "moco"}).waits)


@pytest.mark.parametrize("method", OPERATORS)
def test_a_step_calls_no_more_operators_than_these(method):
    counts = count_step({"method": method, "sampler": "ring", "backbone": "resnet18"})
    assert counts.operators.total() <= OPERATORS[method], counts.table()


# --- deferred checks ----------------------------------------------------------------------------------


class NeverSaved(Checkpoint):
    due = True

    def __init__(self):
        """Makes no folder."""

    def load(self):
        return None

    def save(self, state):
        raise AssertionError("a faulty step was saved")


INSIDE = {"outer": 0.05, "clusters": 35, "runs": 1, "iterations": 3, "keep": "inside"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"sampler": "cave", "anneal": "none", "samplers.cave": INSIDE}, "^sampler cave: [0-9]+ queries"),
        (
            {"bound": "cpc", "bounds.cpc.alpha": 13.0, "methods.ir.negatives": "sampled"},
            "^alpha is 13 with m = 13 cand",
        ),
    ],
)
def test_what_a_cpu_refuses_at_once_a_gpu_refuses_before_it_is_saved(changes, sentence):
    with pytest.raises(InputError, match=sentence):
        run(changes).run(NeverSaved())
    with PretendedGPU() as gpu:
        training = build_training(read(changes), stripes(70, 0), stripes(10, 1), gpu.device)
        with pytest.raises(InputError, match=sentence):
            training.run(NeverSaved())
        training.method.before_epoch(0, training._embed)
        order = training.order()
        training.batch = 1
        training.step(order)
        with pytest.raises(InputError, match=sentence):
            observer(training, Soundness).look(training)


def test_a_process_that_saves_looks_at_checks_no_more_often_than_one_that_does_not(monkeypatch):
    """One of several processes saves, and each look waits for the others."""
    monkeypatch.setattr(loop, "LOSS_CHECK_STEPS", 3)
    states, looks, two_epochs = [], {}, {"bound": "mlcpc", "scales.tiny.pretrain.epochs": 2}

    class Saved(NeverSaved):
        def save(self, state):
            states.append(state["batch"])

    for name, checkpoint in {"first": Saved(), "other": None}.items():
        with PretendedGPU() as gpu, monkeypatch.context() as patched:
            training = build_training(read(two_epochs), stripes(70, 0), stripes(10, 1), gpu.device)
            pending = looks[name] = []
            patched.setattr(Checks, "look", lambda checks, pending=pending: pending.append(len(checks._pending)))
            training.run(checkpoint)
    assert looks["first"] == looks["other"]
    assert max(looks["first"]) > 0
    epoch = [batch for batch in range(1, training.batches + 1) if batch % 3 == 0 or batch == training.batches]
    assert states == [*epoch * training.settings.budget.epochs, 0], "and once at the end"


def test_a_check_waits_unless_it_is_put_off():
    def fault(number):
        return f"{number:g} is odd" if number % 2 else None

    with PretendedGPU() as gpu, gpu.counting() as counts:
        numbers, checks = torch.arange(4, device=gpu.device), Checks()
        with checks.put_off():
            for number in numbers:
                check(number, fault)
        assert not counts.waits
        with pytest.raises(InputError, match="1 is odd"):
            checks.look()
        checks.look()  # nothing is left
        assert counts.waits.total() == 1
        with pytest.raises(InputError, match="3 is odd"):
            check(numbers[3], fault)


def test_tensors_of_all_kinds_are_sent_as_one_copy():
    tensors = [
        torch.tensor([True, False, True]),
        torch.tensor([[1.5, -2.0], [0.1, 7.0]]).T,
        torch.arange(5),
        torch.empty(0, dtype=torch.int64),
        torch.tensor([1, 255], dtype=torch.uint8),
        torch.tensor([0.1, 0.2], dtype=torch.float64),
    ]
    with PretendedGPU() as gpu:
        with gpu.counting() as counts:
            arrived = to_device(tensors, gpu.device)
        assert (counts.waits.total(), counts.copies.total(), counts.operators.total()) == (0, 1, 0)
        assert all(each.is_cuda for each in arrived)
        arrived = [each.cpu() for each in arrived]
    torch.testing.assert_close(arrived, tensors, rtol=0, atol=0)
    assert all(here is tensor for here, tensor in zip(to_device(tensors, CPU), tensors, strict=True))


# --- the harness --------------------------------------------------------------------------------------

MASK = torch.tensor([True, False, True])
# Waits of the host, operators (None: any number), and the call.
COUNTED = {
    "item": (1, None, lambda x: x[0].item()),
    "bool": (1, None, lambda x: bool(x[0] > 0)),
    "tolist": (1, None, lambda x: x.tolist()),
    "to the host": (1, None, lambda x: x.to("cpu", non_blocking=True)),
    "format": (1, None, lambda x: f"{x[0]}"),
    "nonzero": (1, None, lambda x: x.nonzero()),
    "unique": (1, None, lambda x: x.unique()),
    "bincount": (1, None, lambda x: x.bincount(minlength=9)),
    "repeats": (1, None, lambda x: x.repeat_interleave(x)),
    "mask": (1, None, lambda x: x[x > 1]),
    "mask written": (1, None, lambda x: x.index_put_((x > 0,), torch.ones_like(x)[:2])),
    "host's index": (1, None, lambda x: x[torch.tensor([0, 2])]),
    "new": (1, None, lambda x: torch.tensor([1.0], device=x.device)),
    "pageable": (1, None, lambda x: MASK.to(x.device, non_blocking=True)),
    "pinned, blocking": (1, None, lambda x: MASK.pin_memory().to(x.device)),
    "copied": (1, None, lambda x: x.copy_(torch.ones(3))),
    "views": (0, 0, lambda x: x.view(3, 1).expand(3, 2).T[0]),
    "an operator each": (0, 2, lambda x: (x * 2).add_(x)),
    "zeros": (0, 1, lambda x: torch.zeros(3, device=x.device)),
    "empty": (0, 0, lambda x: torch.empty(3, device=x.device)),
    "to_device": (0, 0, lambda x: MASK.pin_memory().to(x.device, non_blocking=True)),
    "numbers of the host": (0, 2, lambda x: torch.where(x > 1, x, torch.tensor(5))),
    "a mask filled": (0, 2, lambda x: x.masked_fill(x > 1, 0)),
    "rows by number": (0, 1, lambda x: x[x]),
    "repeats of known number": (0, 1, lambda x: torch.repeat_interleave(x, output_size=3)),
    "the host's own": (0, 0, lambda x: (MASK.nonzero(), MASK.sum().item())),
    "backward": (0, 5, lambda x: (x.float().requires_grad_() * 2).sum().backward()),
}


@pytest.mark.parametrize("what", COUNTED)
def test_a_wait_counts_once_and_so_does_an_operator_on_the_gpu_s_tensors(what):
    waits, operators, call = COUNTED[what]
    with PretendedGPU() as gpu:
        x = torch.arange(3, device=gpu.device)
        with gpu.counting() as counts:
            call(x)
    assert counts.waits.total() == waits, counts.table()
    assert operators is None or counts.operators.total() == operators, counts.table()


def test_the_sides_do_not_mix():
    with PretendedGPU() as gpu:
        x = torch.arange(3, device=gpu.device)
        assert ((x + 1).device.type, torch.arange(3).device.type, x.cpu().device.type) == ("cuda", "cpu", "cpu")
        with pytest.raises(RuntimeError, match="mixes tensors of the GPU and of the host"):
            x + torch.arange(3)
        with pytest.raises(RuntimeError, match="rand on the GPU with the other side's generator"):
            torch.rand(3, generator=torch.Generator(), device=gpu.device)
        with pytest.raises(TypeError, match="can't convert cuda"):
            x.numpy()
