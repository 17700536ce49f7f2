"""Compiles every kernel for this GPU, and reports its registers."""

from collections.abc import Iterator
from importlib.util import find_spec

import torch

from annulus.device.machine_code import Form, machine_code
from annulus.gpu.result import FAST, SLOW, WRONG, CheckResult, reason
from annulus.gpu.trainings import Sizes

MOST_SPILLED = 32  # bytes per thread


def forms() -> list[Form]:
    """Forms of all kernels of the library."""
    from annulus.encoders import grouped_kernels
    from annulus.negatives import bisection
    from annulus.views import kernels

    return [*bisection.forms(), *grouped_kernels.forms(), *kernels.forms()]


def part(device: torch.device, sizes: Sizes) -> Iterator[CheckResult]:
    """Results of compiling each kernel."""
    if find_spec("triton") is None:
        yield CheckResult("Triton", "not installed", SLOW, "plain PyTorch")
        return
    real = torch.cuda.is_available()
    major, minor = torch.cuda.get_device_capability() if real else (9, 0)  # pretended: an H100
    for form in forms():
        try:
            code = machine_code(form, 10 * major + minor)
        except Exception as error:  # of a compiler: any kind
            yield CheckResult(form.name, reason(error), WRONG, "plain PyTorch")
            continue
        number = f"{code.registers} registers, {code.spilled_bytes} bytes spilled, {code.instructions} instructions"
        yield CheckResult(form.name, number, FAST if code.spilled_bytes <= MOST_SPILLED else SLOW)
