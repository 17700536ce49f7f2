"""The device's precision, determinism and compilation, as environment variables set them."""

import os
import sys

import pytest
import torch

from annulus.device.device import autocast, described, pick_device, threads
from annulus.errors import InputError

CPU, GPU = torch.device("cpu"), torch.device("cuda")


on_a_cpu = pytest.mark.skipif(torch.cuda.is_available(), reason="here a GPU computes")


@pytest.fixture(autouse=True)
def set_variable(monkeypatch):
    """Function that sets an ANNULUS_ variable; all are unset before. torch's own settings are restored."""
    for name in ("ANNULUS_PRECISION", "ANNULUS_DETERMINISTIC", "ANNULUS_COMPILE", "CUBLAS_WORKSPACE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    for name in ("deterministic", "benchmark"):
        monkeypatch.setattr(torch.backends.cudnn, name, getattr(torch.backends.cudnn, name))
    unwritten = torch.utils.deterministic.fill_uninitialized_memory
    yield lambda name, value: monkeypatch.setenv(f"ANNULUS_{name}", value)
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = unwritten


def test_a_cpu_computes_in_bfloat16_only_where_asked(set_variable):
    for dtype, words in ((torch.float32, "cpu"), (torch.bfloat16, "cpu bf16")):
        with autocast(CPU):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
        assert described(CPU) == words
        set_variable("PRECISION", "bf16")


@on_a_cpu
@pytest.mark.parametrize(
    ("setting", "value", "amx", "message"),
    [
        ("PRECISION", "bf16", False, "ANNULUS_PRECISION is bf16, and this processor has no AMX, .* unset it"),
        ("PRECISION", "half", True, "ANNULUS_PRECISION is 'half'; give float32 or bf16, or unset it"),
        ("DETERMINISTIC", "1", True, "ANNULUS_DETERMINISTIC is '1'; give yes or no, or unset it for no"),
        ("COMPILE", "on", True, "ANNULUS_COMPILE is 'on'; give no or yes or graphs, or unset it for no"),
    ],
)
def test_what_is_unknown_or_lacking_is_refused_before_work_starts(
    setting, value, amx, message, set_variable, monkeypatch
):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    set_variable("PRECISION", "bf16")
    assert pick_device() == CPU
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    set_variable(setting, value)
    with pytest.raises(InputError, match=message):
        pick_device()


@on_a_cpu
def test_compiling_is_named_and_refused_where_there_is_no_compiler(set_variable, monkeypatch):
    monkeypatch.setenv("CXX", sys.executable)
    set_variable("COMPILE", "graphs")
    assert described(pick_device()) == "cpu compiled"
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(InputError, match="ANNULUS_COMPILE is graphs, and there is no compiler 'no-such-compiler'; ins"):
        pick_device()


@pytest.mark.parametrize(("value", "words"), [("yes", "cuda deterministic"), ("no", "cuda")])
def test_a_gpu_is_deterministic_only_where_asked(value, words, set_variable, monkeypatch):
    set_variable("DETERMINISTIC", value)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert pick_device() == GPU
    assert described(GPU) == words
    assert torch.are_deterministic_algorithms_enabled() == torch.backends.cudnn.deterministic == (value == "yes")
    assert torch.backends.cudnn.benchmark == (value == "no"), "it takes whichever is the fastest at this moment"
    assert os.environ.get("CUBLAS_WORKSPACE_CONFIG") == (":4096:8" if value == "yes" else None)


def test_several_threads_are_named_on_a_cpu():
    assert [described(device, threads) for device in (CPU, GPU) for threads in (1, 2)] == [
        *("cpu", "cpu 2 threads"),
        *("cuda", "cuda"),
    ]


def test_a_number_of_threads_holds_within_and_the_one_before_is_back_after_a_failure_too():
    before = torch.get_num_threads()
    with threads(before + 1):
        assert torch.get_num_threads() == before + 1
    with pytest.raises(ZeroDivisionError), threads(before + 1):
        raise ZeroDivisionError
    assert torch.get_num_threads() == before


@on_a_cpu
def test_on_a_cpu_the_switch_changes_nothing(set_variable):
    set_variable("DETERMINISTIC", "yes")
    assert pick_device() == CPU
    assert described(CPU) == "cpu"
    assert not torch.are_deterministic_algorithms_enabled()
