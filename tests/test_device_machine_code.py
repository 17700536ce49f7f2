"""Machine code of every kernel for GPUs that this machine lacks: it compiles, and its numbers stay in its registers."""

import csv

import pytest
from by_path import ROOT, script
from interpreted import needs_triton

from annulus.device.machine_code import machine_code
from annulus.gpu import kernel_code

pytestmark = needs_triton
THREADS, REGISTERS = 32, 65_536  # of a warp; of a multiprocessor, from compute capability 7.0 on
SPILLED = 32  # bytes a thread at most: bounds of loops that the bisection reads again, on compute capability 8.0


@pytest.mark.slow
@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("room", ["encoders.grouped_kernels", "negatives.bisection", "views.kernels"])
def test_no_kernel_spills_its_numbers_and_two_programs_fit_a_multiprocessor(room, architecture):
    module = pytest.importorskip(f"annulus.{room}")
    for form in module.forms():
        code = machine_code(form, architecture)
        assert code.spilled_bytes <= SPILLED, (form.name, code)
        assert 2 * code.registers * form.warps * THREADS <= REGISTERS, (form.name, code)
        assert code.instructions > 100, (form.name, code)


def test_the_table_has_every_kernel_for_every_triton_and_none_spills():
    """`python tests/benchmarks/triton_versions.py` writes it."""
    module = script("tests/benchmarks/triton_versions.py")
    with module.TABLE.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    names = [form.name for form in kernel_code.forms()]
    expected = {(triton, str(sm), name) for triton in module.VERSIONS for sm in module.ARCHITECTURES for name in names}
    assert {(row["triton"], row["sm"], row["kernel"]) for row in rows} == expected
    assert max(int(row["spilled_bytes"]) for row in rows) <= SPILLED
    least = next(iter(module.VERSIONS.values()))
    assert f'"torch>={least}"' in (ROOT / "pyproject.toml").read_text(encoding="utf-8")
