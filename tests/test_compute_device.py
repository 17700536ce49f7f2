"""What the device computes in, and whether twice the same."""

import os

import pytest
import torch
from settings import run

from annulus.compute.device import autocast, described, pick_device
from annulus.errors import InputError

CPU, GPU = torch.device("cpu"), torch.device("cuda")


@pytest.fixture(autouse=True)
def nothing_asked(monkeypatch):
    monkeypatch.delenv("ANNULUS_PRECISION", raising=False)
    monkeypatch.delenv("ANNULUS_DETERMINISTIC", raising=False)


@pytest.mark.parametrize(
    ("asked", "dtype", "words"), [(None, torch.float32, "cpu"), ("bf16", torch.bfloat16, "cpu bf16")]
)
def test_a_cpu_computes_in_bfloat16_only_where_asked(asked, dtype, words, monkeypatch):
    if asked:
        monkeypatch.setenv("ANNULUS_PRECISION", asked)
    with autocast(CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
    assert described(CPU) == words


@pytest.mark.skipif(torch.cuda.is_available(), reason="here a GPU computes")
@pytest.mark.parametrize(
    ("setting", "asked", "amx", "refused"),
    [
        ("PRECISION", "bf16", False, "ANNULUS_PRECISION is bf16, and this processor has no AMX, .* unset it"),
        ("PRECISION", "half", True, "ANNULUS_PRECISION is 'half'; give float32 or bf16, or unset it"),
        ("PRECISION", "bf16", True, None),
        ("DETERMINISTIC", "1", True, "ANNULUS_DETERMINISTIC is '1'; give yes or no, or unset it for no"),
    ],
)
def test_what_is_unknown_or_lacking_is_refused_before_work_starts(setting, asked, amx, refused, monkeypatch):
    monkeypatch.setenv(f"ANNULUS_{setting}", asked)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    if refused is None:
        assert pick_device() == CPU
        return
    with pytest.raises(InputError, match=refused):
        pick_device()


@pytest.fixture
def settings_put_back(monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    monkeypatch.setattr(torch.backends.cudnn, "deterministic", torch.backends.cudnn.deterministic)
    unwritten = torch.utils.deterministic.fill_uninitialized_memory
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = unwritten


@pytest.mark.usefixtures("settings_put_back")
@pytest.mark.parametrize(("asked", "words"), [("yes", "cuda deterministic"), ("no", "cuda")])
def test_a_gpu_is_deterministic_only_where_asked(asked, words, monkeypatch):
    monkeypatch.setenv("ANNULUS_DETERMINISTIC", asked)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device() == GPU
    assert described(GPU) == words
    assert torch.are_deterministic_algorithms_enabled() == torch.backends.cudnn.deterministic == (asked == "yes")
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (":4096:8" if asked == "yes" else None)


@pytest.mark.skipif(torch.cuda.is_available(), reason="here a GPU computes")
def test_on_a_cpu_the_switch_changes_nothing(monkeypatch):
    monkeypatch.setenv("ANNULUS_DETERMINISTIC", "yes")
    assert pick_device() == CPU
    assert described(CPU) == "cpu"
    switched = run({"method": "moco", "sampler": "ring"})
    history = switched.run()
    assert not torch.are_deterministic_algorithms_enabled()
    monkeypatch.delenv("ANNULUS_DETERMINISTIC")
    plain = run({"method": "moco", "sampler": "ring"})
    assert plain.run() == history
    for weight, other in zip(plain.method.parameters(), switched.method.parameters(), strict=True):
        assert torch.equal(weight, other)
