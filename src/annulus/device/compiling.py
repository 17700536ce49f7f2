"""A network's pass compiled by torch, and replayed from CUDA graphs, for those who ask: fewer kernels, fewer calls."""

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
    """The call, where ANNULUS_COMPILE asks for it compiled at its first use, for the sizes that it then has."""
    return call if compiling() == "no" else _Compiled(call)


class _Compiled:
    """A compiled call that can be copied: torch's own is a function, whose copy would still call the first network."""

    def __init__(self, call: Callable) -> None:
        self.call, self.compiled = call, torch.compile(call, dynamic=False)

    def __call__(self, *given: Any) -> Any:
        return self.compiled(*given)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Compiled":
        return _Compiled(deepcopy(self.call, memo))


def replayed(call: Call, module: nn.Module) -> Call:
    """The call on a batch, where ANNULUS_COMPILE asks for graphs replayed from CUDA graphs, as `Graphed` says.

    Of several processes none captures: their layers send statistics to each other.
    """
    return Graphed(call, module) if compiling() == "graphs" and world_size() == 1 else call
