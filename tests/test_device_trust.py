"""A kernel runs only where it compiled and agreed with plain PyTorch; else plain PyTorch runs, after one warning."""

import copy
import importlib
import re
import sys
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
import torch
from by_path import ROOT
from interpreted import interpreted, needs_triton
from pretended_gpu import PretendedGPU, exact_batch_norm
from settings import read

from annulus.device.trust import trusted
from annulus.encoders import grouped_pass
from annulus.encoders.shuffled_batchnorm import GroupedBatchNorm1d
from annulus.negatives import threshold
from annulus.views import recipe

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def gpu_is_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    trusted.cache_clear()
    yield
    trusted.cache_clear()


def faulty(*_):
    raise RuntimeError("at 3:7:\nBINS = 2 ** min(OPEN, BITS)\n     ^")


@needs_triton
@pytest.mark.parametrize(
    ("agrees", "reason"),
    [
        (lambda device: False, "they do not agree with plain PyTorch"),
        (faulty, r"RuntimeError: BINS = 2 \*\* min\(OPEN, BITS\)"),
    ],
)
def test_a_kernel_that_fails_or_disagrees_is_not_used_and_said_once(agrees, reason, caplog):
    check = mock.Mock(side_effect=agrees)
    assert not any(trusted("a.room", check, CPU) for _ in range(3))
    assert check.call_count == 1
    [line] = caplog.messages
    assert re.fullmatch(
        rf"WARNING: kernels of a\.room are not used on cpu \({reason}\); plain PyTorch takes longer", line
    )


@needs_triton
def test_a_kernel_that_agrees_is_asked_once_for_each_device_and_nothing_is_said(caplog):
    check = mock.Mock(return_value=True)
    assert all(trusted("a.room", check, torch.device(name)) for name in ("cpu", "cuda:0", "cpu", "cuda:0", "cuda:1"))
    assert [call.args[0].index for call in check.call_args_list] == [None, 0, 1]
    assert not caplog.messages


@contextmanager
def kernels(select=faulty, view=faulty, normalised=faulty):
    """A pretended GPU on which these functions stand for the kernels."""
    from annulus.encoders import grouped_kernels
    from annulus.negatives import bisection
    from annulus.views import kernels as view_kernels

    with (
        PretendedGPU() as gpu,
        mock.patch.object(bisection, "select", select),
        mock.patch.object(view_kernels, "view", view),
        mock.patch.object(grouped_kernels, "normalised", normalised),
    ):
        yield gpu


def select_next(scores, own, first, last, picked):
    """Selection with one wrong column of one query."""
    columns = threshold.plain(scores, own if own.numel() else None, first, last, picked)
    columns[0, 0] = (columns[0, 0] + 1) % scores.shape[1]
    return columns


def dark(images, boxes, mirrored, jitter, grey, size):
    return torch.zeros(len(images), 3, size, size, device=images.device)


@needs_triton
@pytest.mark.parametrize("select", [select_next, faulty])
def test_wrong_columns_of_a_kernel_are_never_selected(select, generator, caplog):
    scores, own = torch.randn(4, 50, generator=generator), torch.arange(4)
    with kernels(select=select) as gpu:
        for _ in range(2):
            actual = threshold.select(scores.to(gpu.device), own.to(gpu.device), 3, 9).cpu()
    assert torch.equal(actual, threshold.plain(scores, own, 3, 9))
    assert [line[:52] for line in caplog.messages] == ["WARNING: kernels of annulus.negatives.bisection are "]


@needs_triton
@pytest.mark.parametrize("view", [dark, faulty])
def test_wrong_pixels_of_a_kernel_are_never_seen(view, generator, caplog):
    views = read({"views": "standard"}).views
    images = torch.randint(0, 256, (4, 3, 16, 16), generator=generator, dtype=torch.uint8)
    expected = recipe.augment(images, views, 16, torch.Generator().manual_seed(0))
    with kernels(view=view) as gpu:
        for _ in range(2):
            actual = recipe.augment(images.to(gpu.device), views, 16, torch.Generator().manual_seed(0)).cpu()
    torch.testing.assert_close(actual, expected, rtol=0, atol=1e-5)
    assert [line[:43] for line in caplog.messages] == ["WARNING: kernels of annulus.views.kernels a"]


def biased(x, weight, bias, eps, measured):
    """Batch norm with wrong variances."""
    result = exact_batch_norm(x, weight, bias, eps, measured)
    measured[:, 1] *= 1 - len(measured) / len(x)
    return result


@needs_triton
@pytest.mark.parametrize("normalised", [biased, faulty])
def test_wrong_statistics_of_a_kernel_are_never_learned(normalised, generator, caplog):
    x, alone = torch.randn(64, 32, generator=generator), GroupedBatchNorm1d(32, groups=2)
    norm = copy.deepcopy(alone)
    with torch.no_grad():
        expected = alone(x)
        with kernels(normalised=normalised) as gpu:
            norm.to(gpu.device)
            for _ in range(2):
                norm.reset_running_stats()
                actual = norm(x.to(gpu.device)).cpu()
            running = [each.cpu() for each in norm.buffers()]
    assert all(map(torch.equal, [actual, *running], [expected, *alone.buffers()]))
    assert [line[:52] for line in caplog.messages] == ["WARNING: kernels of annulus.encoders.grouped_kernels"]


# Faults in the source of kernels, by file: text and its replacement.
MUTATIONS = {
    "negatives/bisection.py": [
        ("outer_equal + tl.cumsum", "1 + outer_equal + tl.cumsum"),
        ("0xFFFFFFFF, 0x80000000", "0x7FFFFFFF, 0x80000000"),
    ],
    "encoders/grouped_kernels.py": [("(rows - 1)", "rows"), ("(before // ROWS + tile + 1)", "(tile + 1)")],
    "views/kernels.py": [("turn + 1", "turn + 1.01"), ("factors += image * 3", "factors += image")],
}


@pytest.mark.slow
@needs_triton
def test_the_fixed_inputs_tell_faulty_kernels_from_right_ones(tmp_path):
    for file, mutations in MUTATIONS.items():
        source = (ROOT / "src/annulus" / file).read_text()
        for number, (old, new) in enumerate([("", ""), *mutations]):
            assert old in source
            (tmp_path / f"{Path(file).stem}_{number}.py").write_text(source.replace(old, new) if old else source)
    assert interpreted("test_device_trust:agreements", [(str(tmp_path),)]) == [[True, False, False] * len(MUTATIONS)]


def agreements(folder):
    """Agreement of each of these sources, in the kernels' place, with plain PyTorch; runs where Triton interprets."""
    sys.path.insert(0, folder)
    results, checks = [], (threshold.kernels_agree, grouped_pass.kernels_agree, recipe.kernels_agree)
    for file, agrees in zip(MUTATIONS, checks, strict=True):
        room, name = importlib.import_module("annulus." + file.split("/")[0]), Path(file).stem
        for number in range(3):
            with mock.patch.object(room, name, importlib.import_module(f"{name}_{number}"), create=True):
                results.append(agrees(CPU))
    return results


@pytest.mark.parametrize("file", MUTATIONS)
def test_no_constant_of_a_kernel_is_made_by_a_function_that_triton_3_5_does_not_know(file):
    lines = (ROOT / "src/annulus" / file).read_text().splitlines()
    constants = [line for line in lines if re.match(r"\s+\w+: tl\.constexpr = ", line)]
    assert not [line for line in constants if re.search(r"\b(min|max|abs)\(", line)]
