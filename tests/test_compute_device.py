"""What the device computes in."""

import pytest
import torch

from annulus.compute.device import autocast, described, pick_device
from annulus.errors import InputError

CPU = torch.device("cpu")


@pytest.mark.parametrize(
    ("asked", "dtype", "words"), [(None, torch.float32, "cpu"), ("bf16", torch.bfloat16, "cpu bf16")]
)
def test_a_cpu_computes_in_bfloat16_only_where_asked(asked, dtype, words, monkeypatch):
    monkeypatch.delenv("ANNULUS_PRECISION", raising=False)
    if asked:
        monkeypatch.setenv("ANNULUS_PRECISION", asked)
    with autocast(CPU):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
    assert described(CPU) == words


@pytest.mark.skipif(torch.cuda.is_available(), reason="here a GPU computes")
@pytest.mark.parametrize(
    ("asked", "amx", "refused"),
    [
        ("bf16", False, "ANNULUS_PRECISION is bf16, and this processor has no AMX, .* unset it"),
        ("half", True, "ANNULUS_PRECISION is 'half'; give float32 or bf16, or unset it"),
        ("bf16", True, None),
    ],
)
def test_what_the_processor_lacks_is_refused_before_work_starts(asked, amx, refused, monkeypatch):
    monkeypatch.setenv("ANNULUS_PRECISION", asked)
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: amx)
    if refused is None:
        assert pick_device() == CPU
        return
    with pytest.raises(InputError, match=refused):
        pick_device()
