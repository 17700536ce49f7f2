"""Every kernel as machine code of GPUs that are not here: it compiles, and its numbers stay in its registers."""

import pytest
from interpreted import needs_triton

from annulus.device.machine_code import machine_code

pytestmark = [needs_triton, pytest.mark.slow]
THREADS, REGISTERS = 32, 65_536  # of a warp; of a multiprocessor, from compute capability 7.0 on
SPILLED = 8  # bytes a thread at most: an address that `views cropped` reads again, on compute capability 8.0


@pytest.mark.parametrize("architecture", [80, 90])
@pytest.mark.parametrize("room", ["negatives.radix", "views.kernels"])
def test_no_kernel_spills_its_numbers_and_two_programs_fit_a_multiprocessor(room, architecture):
    module = pytest.importorskip(f"annulus.{room}")
    for form in module.forms():
        code = machine_code(form, architecture)
        assert code.spilled_bytes <= SPILLED, (form.name, code)
        assert 2 * code.registers * form.warps * THREADS <= REGISTERS, (form.name, code)
        assert code.instructions > 100, (form.name, code)
