"""A network's pass compiled by torch, for those who ask: fewer kernels, each doing more."""

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import nn

from annulus.device.device import compiling
from annulus.device.distributed import world_size
from annulus.device.graphs import Graphed

Call = TypeVar("Call", bound=Callable)


def compiled(call: Call) -> Call:
    """The call, where ANNULUS_COMPILE asks for it compiled at its first use, for the sizes that it then has."""
    return call if compiling() == "no" else torch.compile(call, dynamic=False)


def replayed(call: Call, module: nn.Module) -> Call:
    """The call on a batch, where ANNULUS_COMPILE asks for graphs replayed from CUDA graphs, as `Graphed` says.

    Of several processes none captures: their layers send statistics to each other.
    """
    return Graphed(call, module) if compiling() == "graphs" and world_size() == 1 else call
