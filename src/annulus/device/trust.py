"""Trust in kernels: they run only if they compile and agree with plain PyTorch on this device and these versions."""

import logging
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec

import torch

log = logging.getLogger("annulus")


@cache
def trusted(name: str, agrees: Callable[[torch.device], bool], device: torch.device) -> bool:
    """Returns True if kernels can be used: Triton on a GPU, C on a CPU, in agreement with PyTorch.

    `agrees` runs once for each device of a process, and waits for the device. If it fails, there is one warning.
    """
    if device.type != "cpu" and (not torch.cuda.is_available() or find_spec("triton") is None):
        return False
    try:
        with torch.inference_mode(False), torch.no_grad(), torch.autocast(device.type, enabled=False):
            reason = None if agrees(device) else "they do not agree with plain PyTorch"
    except Exception as error:  # of a compiler, a driver or a linker: any kind
        lines = [line.strip() for line in str(error).splitlines() if any(map(str.isalnum, line))]
        reason = ": ".join([type(error).__name__, *lines[-1:]])
    if reason is not None:
        log.warning("WARNING: kernels of %s are not used on %s (%s); plain PyTorch takes longer", name, device, reason)
    return reason is None
