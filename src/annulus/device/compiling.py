"""Optional speed of a network's pass: torch.compile for fewer kernels, CUDA graphs for fewer calls."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any, TypeVar

import torch
from torch import nn

from annulus.device.device import compiling
from annulus.device.distributed import world_size
from annulus.device.graphs import Graphed

Call = TypeVar("Call", bound=Callable)


def compiled(call: Call) -> Call:
    """Returns the call; if ANNULUS_COMPILE is set, compiled at its first use, for the sizes of that use."""
    return call if compiling() == "no" else _Compiled(call)


class _Compiled:
    """A compiled call that can be copied. Torch's is a function, and its copy would still call the first network."""

    def __init__(self, call: Callable) -> None:
        self.call, self.compiled = call, torch.compile(call, dynamic=False)

    def __call__(self, *arguments: Any) -> Any:
        return self.compiled(*arguments)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Compiled":
        return _Compiled(deepcopy(self.call, memo))


def replayed(call: Call, module: nn.Module) -> Call:
    """Returns the call on a batch; if ANNULUS_COMPILE is graphs, as `Graphed`.

    Several processes capture nothing, since their layers send statistics to each other.
    """
    return Graphed(call, module) if compiling() == "graphs" and world_size() == 1 else call
